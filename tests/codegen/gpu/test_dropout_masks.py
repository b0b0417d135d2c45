"""Which elements dropout keeps, as one kernel: against numpy, in Triton's interpreter and in the interpreter of kernels."""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.compiler.compiler as compiler

import burn
from burn import ops, optim, train
from burn.codegen.triton import worker
from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.sources import Source
from burn.dialect import ops as dialect
from burn.dialect.dims import Dim, symbol
from burn.dialect.dropout import RandomKept
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.codegen.dropouts import KEY, kept
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.codegen.gpu.sources import HOPPER, sources_of
from tests.kernels.interpreting import interpreted

simulated = pytest.importorskip("tests.codegen.gpu.simulated")

KEYED = np.array(KEY, np.uint32)
SHAPES = [(1,), (2,), (0,), (16,), (3, 15), (2, 3, 17), (7, 64), (2, 1, 5, 48), (4, 131), (3, 2048)]


def drawn(shape: tuple[Dim, ...], rate: float, names: tuple[str, ...] = ()) -> Program:
    program = Program.create(
        [("key", TensorType("uint32", (2,))), *((name, TensorType("bool", shape)) for name in names)]
    )
    with program.building("node"):
        made = dialect.random_kept(program.inputs[0], shape=shape, rate=rate)
        for other in program.inputs[1:]:
            made = dialect.and_(made, other)
    program.finish([("kept", made)])
    return program


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rate", [0.1, 0.995])
def test_bits(shape: tuple[int, ...], rate: float) -> None:
    program = drawn(shape, rate)
    pipeline.run(pipeline.parse(f"decompose{{keep={RandomKept.OP_NAME}}},fuse"), program, Environment(GPU()))
    want = kept(KEY, shape, rate)
    if want.size < 500:
        np.testing.assert_array_equal(interpreted(program, [KEYED], preferences=GPU().preferences)[0], want)
    got = interpreted(program, [KEYED], simulated.Simulator().launch, GPU().preferences)[0]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(3, symbol("n")), (symbol("n"), 48)], ids=str)
def test_sizes_that_are_known_late(shape: tuple[Dim, ...]) -> None:
    program = drawn(shape, 0.3, ("other",))
    pipeline.run(pipeline.parse(f"decompose{{keep={RandomKept.OP_NAME}}},fuse"), program, Environment(GPU()))
    other = np.random.default_rng(0).random((3, 48)) < 0.5
    got = interpreted(program, [KEYED, other], simulated.Simulator().launch, GPU().preferences)[0]
    np.testing.assert_array_equal(got, kept(KEY, (3, 48), 0.3) & other)


@pytest.mark.parametrize(("shape", "rate"), [((), 0.5), ((), 0.0), ((5,), 0.0), ((5,), 1.0)], ids=str)
def test_nothing_to_draw(gpu: SimulatedGPU, shape: tuple[int, ...], rate: float) -> None:
    got = burn.jit(lambda key: ops.random_kept(key, shape=shape, rate=rate), device="cuda")(KEYED)
    np.testing.assert_array_equal(got, kept(KEY, shape or (1,), rate).reshape(shape) if 0 < rate < 1 else rate == 0)


def ptx(source: Source) -> str:
    """The assembly of a kernel for Hopper."""
    texts: list[str] = []

    def noting(*args: Any, **kwargs: Any) -> Any:
        made = compiler.compile(*args, **kwargs)
        texts.append(made.asm["ptx"])
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton, "compile", noting)
        image = worker.tried(source, HOPPER)
    assert not isinstance(image, str), image
    return texts[0]


def test_a_call_of_the_cipher_for_four_elements(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A thread has 16 neighbours, so that each call's words are computed once. A call has 20 rotations; the
    first reads the key alone."""
    (source,) = sources_of(drawn((4096, 768), 0.1), Abilities.of("cuda", "sm_90"))
    assert dict(source.named)["ROWS"] == 16 * 32 * source.warps
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))  # others keep machine code alone
    monkeypatch.delenv("TRITON_STORE_BINARY_ONLY", raising=False)
    # Triton's interpreter, which ran in this process, replaces functions of its language.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        text = fresh.submit(ptx, source).result()
    assert 4 * 19 <= len(re.findall(r"\bshf\.", text)) <= 4 * 20


class Layers(torch.nn.Module):
    """Two layers with dropout behind matmuls and a norm before, as in BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(32) for _ in range(3))
        self.linears = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(2))
        self.dropout = torch.nn.Dropout(0.25)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.norms[0](x))
        for norm, linear in zip(self.norms[1:], self.linears, strict=True):
            x = norm(x + self.dropout(linear(x)))
        return x


def test_masks_of_a_step(gpu: SimulatedGPU) -> None:
    """Each mask is drawn by a kernel of its own, just before its reader, and no kernel stores words."""
    torch.manual_seed(0)
    x = torch.randn(64, 32)
    twin = burn.compile(Layers(), (x,), train=True)
    step = train.step(twin, lambda m, x: (m(x) ** 3).mean(), optim.SGD(twin, lr=1e-3), device="cuda")
    assert np.isfinite(float(step(burn.tensor(x.numpy()).to("cuda"))))
    names = [kernel.name for kernel in step.executable.artefact.kernels]
    assert names.count("random_kept") == 3
    positions = [number for number, name in enumerate(names) if name == "random_kept"]
    assert positions != list(range(positions[0], positions[0] + 3))
    assert sum("= kept(" in source.text for source in gpu.sources) == 1
