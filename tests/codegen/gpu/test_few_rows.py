"""Norms, gated layers and residuals around weights of few bits: a kernel for each matmul, or for two of the same rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from burn.codegen.triton.abilities import PROCESSORS, SHARED_MEMORY
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.heuristics import fragments as heuristics
from burn.compiler import environment, executable
from burn.dialect import ops
from burn.dialect.compose import convert, number
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.kernels import interpret
from burn.kernels.body import ContractionKernel, Kernel
from burn.kernels.rewrite import as_loops
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.device import device
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.codegen.test_blockwise import Case, Weight, constant
from tests.kernels.interpreting import interpreted

pytest.importorskip("triton")

SWEEP = int(os.environ.get("BURN_SWEEP", "0"))
UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
ROUNDINGS = {"float16": 2, "bfloat16": 12}
"""Error of a whole result in units. Triton's interpreter truncates to bfloat16."""


@dataclass(frozen=True)
class Layer:
    """A gated layer behind a norm: x + (silu(n A) * (n B)) C for n = norm(x). mean: subtract the mean, as a layer norm does."""

    rows: int
    width: int
    hidden: int
    bits: int = 4
    zero: bool = False
    dtype: str = "float16"
    mean: bool = False

    def case(self, depth: int, columns: int) -> Case:
        return Case(self.rows, depth, columns, self.bits, 32, self.zero, "float16", self.dtype)


LAYERS = [
    Layer(1, 128, 48),
    Layer(1, 2080, 32, mean=True),  # several steps of the depth
    Layer(1, 96, 50, bits=8, dtype="bfloat16"),
    Layer(2, 160, 40, zero=True, mean=True),
    Layer(7, 64, 33, bits=8, zero=True),
    Layer(16, 96, 16, dtype="bfloat16"),
]


def drawn(seed: int) -> Layer:
    random = np.random.default_rng(seed)
    rows, width, hidden = (
        int(random.choice(n)) for n in ([1, 1, 2, 5, 8, 9, 16], [32, 96, 992, 2112], [1, 16, 40, 131])
    )
    bits, dtype = int(random.choice([4, 8])), str(random.choice(["float16", "bfloat16"]))
    return Layer(rows, width, hidden, bits, bool(random.integers(2)), dtype, bool(random.integers(2)))


class Model:
    """The program of a layer, and its exact result in float64."""

    def __init__(self, layer: Layer, seed: int = 1) -> None:
        self.layer, random = layer, np.random.default_rng(seed)
        self.gate, self.up = (Weight(random, layer.case(layer.width, layer.hidden)) for _ in range(2))
        self.down = Weight(random, layer.case(layer.hidden, layer.width))
        self.scale = (random.uniform(0.8, 2.4, layer.width) / 2**layer.bits).astype("float32")  # no overflow
        self.x = random.standard_normal((layer.rows, layer.width)).astype("float32")

    @property
    def program(self) -> Program:
        layer = self.layer
        program = Program.create([("x", TensorType("float32", (layer.rows, layer.width)))])
        with program.building("layer"):
            x = program.inputs[0]
            n = convert(self._norm(program, x), layer.dtype)
            gate, up = (weight.matmul(program, n) for weight in (self.gate, self.up))
            h = ops.mul(ops.silu(gate), up)
            y = ops.add(x, convert(self.down.matmul(program, h), "float32"))
        return program.finish([("y", y)])

    def _norm(self, program: Program, x: ir.Value) -> ir.Value:
        count = number(1 / self.layer.width, "float32")
        if self.layer.mean:
            x = ops.sub(x, ops.mul(ops.reduce(x, kind="sum", axes=(1,), keepdims=True), count))
        square = ops.mul(ops.reduce(ops.mul(x, x), kind="sum", axes=(1,), keepdims=True), count)
        root = ops.rsqrt(ops.add(square, number(1e-5, "float32")))
        return ops.mul(ops.mul(x, root), constant(program, self.scale))

    @property
    def exact(self) -> np.ndarray:
        x, kind = self.x.astype("float64"), numpy_dtype(self.layer.dtype)
        n = x - x.mean(1, keepdims=True) if self.layer.mean else x
        n = n / np.sqrt((n * n).mean(1, keepdims=True) + 1e-5) * self.scale
        gate, up = (n.astype(kind).astype("float64") @ weight.value.T for weight in (self.gate, self.up))
        return x + (gate / (1 + np.exp(-gate)) * up) @ self.down.value.T

    def check(self, got: np.ndarray | None = None) -> None:
        """Compares a result, that of a run on the GPU by default, with the exact one."""
        if got is None:
            got = executable(self.program, Options(device=device("cuda"), architecture="sm_90"))(self.x)
        assert got.dtype == np.float32
        largest = ROUNDINGS[self.layer.dtype] * UNITS[self.layer.dtype] * np.linalg.norm(self.exact - self.x)
        assert np.linalg.norm(got - self.exact) <= largest


@pytest.fixture
def all_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of all dtypes have weights in shared memory, if there is room."""
    monkeypatch.setattr(heuristics, "STAGED_DTYPES", frozenset({"float16", "bfloat16"}))


@pytest.mark.parametrize("layer", [*LAYERS, *map(drawn, range(SWEEP))], ids=str)
def test_gated_layer(gpu: SimulatedGPU, all_dtypes: None, layer: Layer) -> None:
    """The norm and both first matmuls are one kernel, if the depth is whole blocks."""
    Model(layer).check()
    kernels = [s.text.count("mma.sync") > 0 for s in gpu.launched]
    assert kernels == ([True, True] if layer.hidden % 32 == 0 else [True, False, True])


@pytest.mark.parametrize(
    ("layer", "memory"),
    [
        (Layer(1, 96, 50, bits=8), 0),
        (Layer(2, 160, 40, zero=True), 9 << 10),
        (Layer(17, 64, 48), 16 << 10),
        (Layer(1, 64, 32, dtype="bfloat16"), 227 << 10),
    ],
    ids=str,
)
def test_weights_in_registers(gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch, layer: Layer, memory: int) -> None:
    """On a GPU whose programs have too few bytes of shared memory, and for bfloat16."""
    monkeypatch.setitem(SHARED_MEMORY, "sm_90", memory)
    Model(layer).check()
    assert not any("cp.async.bulk.shared" in source.text for source in gpu.launched)


@pytest.mark.parametrize("rows", [1, 17])
def test_more_tiles_than_run_at_once(gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Such a kernel loads no words to registers before it waits for the previous kernel."""
    monkeypatch.setitem(PROCESSORS, "sm_90", 1)
    monkeypatch.setitem(SHARED_MEMORY, "sm_90", 0)
    Model(Layer(rows, 64, 128)).check()
    for before, after in parts(gpu):
        assert "prefetch.L2" in before and "gl.load" not in before and "gl.load" in after


@pytest.mark.parametrize(
    "layer",
    [Layer(1, 64, 128), Layer(3, 64, 128), Layer(17, 64, 128), Layer(1, 64, 96, bits=8), Layer(3, 64, 32, zero=True)],
    ids=str,
)
def test_weights_in_shared_memory(gpu: SimulatedGPU, layer: Layer) -> None:
    """A program copies all of its weights before it waits, and reads nothing else."""
    Model(layer).check()
    for before, after in parts(gpu):
        assert "cp.async.bulk.shared" in before and "gl.load" not in before
        assert "cp.async.bulk.shared" not in after and "gl.load" in after


@pytest.mark.parametrize("rows", [1, 3])
def test_many_chunks_of_a_warp(gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """They are a loop. The last warps have fewer."""
    monkeypatch.setattr(heuristics, "STAGED_WARPS", 2)
    Model(Layer(rows, 1088, 32, zero=True)).check()
    assert any("for start in" in source.text for source in gpu.launched)


def parts(gpu: SimulatedGPU) -> list[tuple[str, str]]:
    """The texts of matmuls, until they wait for the previous kernel and behind that."""
    texts = [source.text for source in gpu.launched if "mma.sync" in source.text]
    return [(before, after) for before, _, after in (text.partition("griddepcontrol.wait") for text in texts)]


@pytest.mark.parametrize("case", ["reversed columns", "transposed", "three weights"])
def test_other_ops_of_the_results(gpu: SimulatedGPU, case: str) -> None:
    """A result at another index comes from memory. A kernel has two weights."""
    layer = Layer(16, 64, 16)
    random = np.random.default_rng(2)
    weights = [Weight(random, layer.case(64, 16)) for _ in range(3)]
    x = random.standard_normal((16, 64)).astype("float16")
    program = Program.create([("x", TensorType("float16", x.shape))])
    with program.building("layer"):
        a, b, c = (weight.matmul(program, program.inputs[0]) for weight in weights)
        gated = ops.mul(ops.silu(a), b)
        if case == "reversed columns":
            c = ops.slice(b, starts=(0, 15), sizes=(16, 16), steps=(1, -1))
        elif case == "transposed":
            c = ops.transpose(b, permutation=(1, 0))
        y = ops.mul(gated, c) if case == "three weights" else ops.add(gated, c)
    got = executable(program.finish([("y", y)]), Options(device=device("cuda"), architecture="sm_90"))(x)
    u, v, w = (x.astype("float64") @ weight.value.T for weight in weights)
    h = u / (1 + np.exp(-u)) * v
    want = {"reversed columns": h + v[:, ::-1], "transposed": h + v.T, "three weights": h * w}[case]
    assert np.linalg.norm(got - want) <= 4 * UNITS["float16"] * np.linalg.norm(want)
    assert len(gpu.launched) == 2


def test_a_kernel_as_plain_loops() -> None:
    """A kernel with a norm and two weights, in the interpreter of kernels and as the loops of a GPU without its printer."""
    model, backend = Model(Layer(2, 64, 16, mean=True)), GPU()
    program = model.program
    pipeline.run(pipeline.parse(backend.pipeline.text), program, environment(backend))
    merged = []

    def launch(kernel: Kernel, *rest: Any) -> None:
        if isinstance(kernel, ContractionKernel) and not kernel.is_plain:
            merged.append((len(kernel.stages), len(kernel.weights)))
            kernel = as_loops(kernel)
        interpret.run(kernel, *rest)

    for each in (interpret.run, launch):
        (got,) = interpreted(program, [model.x], each, backend.preferences)
        model.check(got.reshape(model.x.shape))
    assert merged == [(2, 2)]
