"""Updates of many parameters in one launch, on the simulated GPU."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import burn
from burn.dialect.text import parse_text
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.codegen.gpu.sources import sources_of

pytest.importorskip("triton")

SHAPES = ((), (1,), (7,), (1024,), (0, 3), (5, 211), (3, 1, 2))


class Parameters(burn.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        random = np.random.default_rng(5)
        for number, shape in enumerate(SHAPES):
            setattr(self, f"p{number}", burn.nn.Parameter(random.standard_normal(shape).astype(np.float32)))

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        total = x.sum() * 0.0
        for number in range(len(SHAPES)):
            p = getattr(self, f"p{number}")
            total = total + ((p * p + x.sum()) * 1.5).sum()
        return total


def moved(parameters: list[np.ndarray], steps: int) -> list[np.ndarray]:
    """AdamW in float64."""
    found = []
    for p in parameters:
        m, v = np.zeros_like(p), np.zeros_like(p)
        for step in range(1, steps + 1):
            g = 3.0 * p
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            p = p * (1 - 0.01 * 0.1) - 0.01 / (1 - 0.9**step) * m / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        found.append(p)
    return found


def test_adamw_updates_parameters_of_all_sizes_in_few_launches(gpu: SimulatedGPU) -> None:
    model = Parameters()
    before = [np.asarray(getattr(model, f"p{n}")).astype(np.float64) for n in range(len(SHAPES))]
    step = burn.train.step(model, lambda m, x: m(x), burn.optim.AdamW(model, lr=0.01, weight_decay=0.1), device="cuda")
    x = burn.tensor(np.array([0.25], np.float32)).to("cuda")
    for _ in range(3):
        step(x)
    for number, want in enumerate(moved(before, 3)):
        got = np.asarray(getattr(model, f"p{number}"))
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    together = Counter(s.name for s in gpu.launched if "loops over different tensors" in s.text)
    assert 1 <= len(together) <= 2 and set(together.values()) == {3}  # sizes that 16 divides, and others; once a step


NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def casts(*types: tuple[str, str, str]) -> str:
    """A program that negates casts. types: of each, its shape and the element types before and after."""
    before = ", ".join(f"%p{n}: tensor<{shape}x{x}>" for n, (shape, x, _) in enumerate(types))
    after = ", ".join(f"tensor<{shape}x{y}>" for shape, _, y in types)
    lines = [
        f'  %{n} = "burn.cast"(%p{n}) {{dtype = "{NAMES[y]}"}} : (tensor<{shape}x{x}>) -> tensor<{shape}x{y}>'
        for n, (shape, x, y) in enumerate(types)
    ]
    values = ", ".join(f"%{n}" for n in range(len(types)))
    return "\n".join(
        [f"func.func @main({before}) -> ({after}) {{", *lines, f'  "burn.return"({values}) : ({after}) -> ()', "}"]
    )


@pytest.mark.parametrize(
    ("types", "launches"),
    [
        ([("64x128", "f16", "f32"), ("64x64", "bf16", "f32")], 2),  # their texts are equal, their pointers are not
        ([("3000000000", "f32", "bf16"), ("16x16", "f32", "bf16"), ("1024x4", "f32", "bf16")], 2),  # 64-bit indices
        ([("64x128", "f32", "bf16"), ("16x16", "f32", "bf16")], 1),
    ],
)
def test_loops_of_one_launch_have_pointers_and_sizes_of_one_type(
    types: list[tuple[str, str, str]], launches: int
) -> None:
    program = parse_text(casts(*types))
    program.renews = {n: n for n in range(len(types))}
    sources = sources_of(program)
    assert len(sources) == launches
    joined = [source for source in sources if "loops over different tensors" in source.text]
    assert not any(source.wide for source in joined)


def test_an_op_without_results_reads_a_value(gpu: SimulatedGPU) -> None:
    """The checks of `burn.debug.nans` are such ops."""
    run = burn.jit(lambda x: burn.sqrt(x) + 1.0, device="cuda")
    with burn.debug.nans():
        np.testing.assert_array_equal(np.asarray(run(np.array([1, 4], np.float32))), [2, 3])
