"""Convolutions with few channels in each group, whose vectors hold several groups: every kind of CPU, of border and of size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import ml_dtypes
import numpy as np
import pytest

from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.kernels import KernelPrinter
from burn.codegen.cpu.target import find
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.adjoint.contraction import kernel_gradient
from burn.dialect.control import Group
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.runtime.executable import Executable
from tests.codegen.cpus import FLOAT_TARGETS


@dataclass(frozen=True)
class Case:
    """`groups` groups of `inputs` and `outputs` channels over `sizes`."""

    groups: int
    inputs: int
    outputs: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @staticmethod
    def of(
        groups: int, inputs: int, outputs: int, sizes: tuple[int, ...], kernel: int, stride: int = 1, dilation: int = 1
    ) -> Case:
        """One whose border keeps the size with stride 1."""
        n, reach = len(sizes), (kernel - 1) * dilation
        low, high = (reach // 2,) * n, (reach - reach // 2,) * n
        return Case(groups, inputs, outputs, sizes, (kernel,) * n, (stride,) * n, (dilation,) * n, low, high)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return self.groups * self.outputs, self.inputs, *self.kernel

    def __str__(self) -> str:
        return f"g{self.groups} {self.inputs}to{self.outputs} {self.sizes} k{self.kernel} s{self.strides} d{self.dilations}"


CASES = [
    *(Case.of(13, channels, channels, (9, 11), 3) for channels in (2, 3, 4, 5, 6, 7, 8)),
    Case.of(3, 12, 12, (7, 9), 3),
    Case.of(2, 16, 16, (5, 8), 3),
    Case.of(5, 1, 2, (15, 13), 7, 2),
    Case.of(9, 1, 3, (9, 17), 3),
    Case.of(3, 3, 32, (9, 10), 3),
    Case.of(17, 2, 1, (10, 7), 3),
    Case.of(6, 4, 2, (9, 9), 5),
    Case.of(3, 8, 1, (5, 9), 3),
    Case.of(4, 4, 4, (1, 1), 3),
    Case.of(8, 4, 4, (13, 6), 1),
    Case.of(5, 4, 4, (33,), 5, 1, 2),
    Case.of(4, 4, 8, (50,), 3, 3),
    Case.of(6, 2, 2, (4, 5, 9), 3),
    Case(8, 4, 4, (9, 12), (3, 1), (1, 1), (1, 1), (1, 0), (1, 0)),
    Case(8, 4, 4, (9, 12), (1, 7), (1, 2), (1, 1), (0, 6), (0, 0)),
    Case(4, 2, 4, (16, 31), (2, 4), (2, 3), (3, 2), (0, 5), (3, 1)),
    Case(
        2, 2, 16, (3, 4, 4), (2, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 1), (0, 0, 1)
    ),  # bounds checks along the last axis only
]


def programmed(case: Case, sizes: tuple[Dim, ...], weight: np.ndarray) -> Program:
    """A convolution with its epilogue."""
    program = Program.create([("x", TensorType("float32", (symbol("n"), case.groups * case.inputs, *sizes)))])
    with program.building("convolution"):
        (x,) = program.inputs
        filter = ops.weight(key=program.weights.add_array(weight, "w"), shape=weight.shape, dtype="float32")
        options = {"strides": case.strides, "dilations": case.dilations, "low": case.low, "high": case.high}
        y = ops.conv(x, filter, groups=case.groups, **options)
        y = ops.mul(y, ops.sigmoid(y))
    return program.finish([("y", y)])


def summed(case: Case, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The convolution in float64."""
    pads = ((0, 0), (0, 0), *zip(case.low, case.high, strict=True))
    padded = np.pad(x.astype("f8"), pads)
    reach = tuple((k - 1) * d + 1 for k, d in zip(case.kernel, case.dilations, strict=True))
    n = len(case.kernel)
    found = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=tuple(range(2, n + 2)))
    steps = (*(slice(None, None, s) for s in case.strides), *(slice(None, None, d) for d in case.dilations))
    found = found[(slice(None), slice(None), *steps)]
    found = found.reshape(len(x), case.groups, case.inputs, *found.shape[2:])
    filters = weight.astype("f8").reshape(case.groups, case.outputs, case.inputs, *case.kernel)
    axes = "abc"[:n], "uvw"[:n]
    result = np.einsum(f"ngi{axes[0]}{axes[1]},goi{axes[1]}->ngo{axes[0]}", found, filters)
    return result.reshape(len(x), case.groups * case.outputs, *result.shape[3:])


def drawn(case: Case) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(case.weight_shape, np.float32)


def check(run: Executable, case: Case, weight: np.ndarray, batch: int) -> None:
    x = np.random.default_rng(batch).standard_normal((batch, case.groups * case.inputs, *case.sizes), np.float32)
    want = summed(case, x, weight)
    got = run(x)
    assert got.shape == want.shape
    np.testing.assert_allclose(
        got, want / (1 + np.exp(-want)), rtol=1e-5, atol=2e-6 * prod(case.weight_shape[1:]) ** 0.5
    )


def parts(case: Case, target: str, named: bool) -> tuple[object, ...]:
    return str(case), (min(case.inputs, 4), target), (target, named)


@pytest.mark.covering(each=parts)
@pytest.mark.parametrize("named", [False, True], ids=["", "named"])
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_groups(case: Case, target: str, named: bool) -> None:
    """Sizes that are numbers, and sizes that only a run tells."""
    weight = drawn(case)
    sizes = tuple(symbol(f"d{i}") for i in range(len(case.sizes))) if named else case.sizes
    run = executable(programmed(case, sizes, weight), Options(target=target, cache=False))
    for batch in (0, 1, 3):
        check(run, case, weight, batch)


NARROW = [("uint8", "int8", "int32", 7), ("int8", "int8", "int32", None), ("bfloat16", "bfloat16", "float32", None)]
"""Types of the input, the weight and the sums, and the value of the border."""


@pytest.mark.covering(pairs=False)
@pytest.mark.parametrize("types", NARROW, ids=str)
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize(
    "case", [Case.of(13, 4, 4, (9, 11), 3), Case.of(9, 2, 4, (12, 7), 5, 2), Case.of(17, 1, 1, (9, 9), 3)], ids=str
)
def test_narrow_types(case: Case, target: str, types: tuple[str, str, str, int | None]) -> None:
    *dtypes, sums, fill = types
    rng = np.random.default_rng(2)
    shapes = (2, case.groups * case.inputs, *case.sizes), case.weight_shape
    x, weight = (
        rng.integers(0 if dtype == "uint8" else -90, 90, shape).astype(ml_dtypes.bfloat16 if "bf" in dtype else dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    )
    program = Program.create([("x", TensorType(dtypes[0], x.shape))])
    with program.building("convolution"):
        filter = ops.weight(key=program.weights.add_array(weight, "w"), shape=weight.shape, dtype=dtypes[1])
        options = {"strides": case.strides, "dilations": case.dilations, "low": case.low, "high": case.high}
        y = ops.conv(program.inputs[0], filter, groups=case.groups, dtype=sums, fill=fill, **options)
    run = executable(program.finish([("y", y)]), Options(target=target, cache=False))
    pads = ((0, 0), (0, 0), *zip(case.low, case.high, strict=True))
    padded = np.pad(x.astype("f8"), pads, constant_values=fill or 0)
    none = (0,) * len(case.sizes)
    want = summed(replace(case, low=none, high=none), padded, weight.astype("f8"))
    np.testing.assert_array_equal(run(x), want)  # all sums are integers that float32 represents


def gradient(case: Case, sizes: tuple[Dim, ...], last: bool) -> Program:
    """The gradient of a convolution's weight. last: both operands are channels-last in memory."""
    n = len(case.sizes)
    moved = (0, n + 1, *range(1, n + 1)) if last else tuple(range(n + 2))
    counts = tuple(
        (d + a + b - (k - 1) * t - 1) // s + 1
        for d, a, b, k, t, s in zip(sizes, case.low, case.high, case.kernel, case.dilations, case.strides, strict=True)
    )
    shapes = (symbol("n"), case.groups * case.inputs, *sizes), (symbol("n"), case.groups * case.outputs, *counts)
    stored = [tuple(shape[moved.index(a)] for a in range(n + 2)) for shape in shapes]
    program = Program.create(list(zip("xg", (TensorType("float32", shape) for shape in stored), strict=True)))
    with program.building("gradient"):
        x, g = (ops.transpose(v, permutation=moved) for v in program.inputs)
        options = (case.strides, case.low, case.high, case.dilations)
        y = kernel_gradient(g, x, case.kernel, *options, case.groups)
    return program.finish([("y", y)])


GRADIENTS = [
    Case.of(33, 1, 1, (19, 21), 3),
    Case.of(20, 1, 1, (30, 17), 7, 2),
    Case.of(13, 2, 2, (9, 40), 3),
    Case.of(13, 4, 4, (7, 11), 3, 1, 2),
    Case.of(5, 3, 6, (6, 9), 5),
    Case.of(9, 4, 1, (5, 9), 3),
    Case.of(16, 1, 2, (700,), 5),
    Case.of(6, 2, 2, (4, 5, 9), 3),
    Case.of(4, 8, 8, (9, 9), 3),
    Case(8, 1, 1, (9, 12), (3, 1), (1, 1), (1, 1), (1, 0), (1, 0)),
    Case(8, 1, 1, (3, 300), (1, 12), (1, 1), (1, 1), (0, 6), (0, 5)),
    Case(2, 16, 3, (11, 1), (3, 1), (1, 1), (3, 3), (4, 0), (2, 5)),  # sums over the batch, whose size may be open
]


def gradient_parts(case: Case, target: str, last: bool, named: bool) -> tuple[object, ...]:
    return str(case), (target, last), (last, named)


@pytest.mark.covering(each=gradient_parts)
@pytest.mark.parametrize("named", [False, True], ids=["", "named"])
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("case", GRADIENTS, ids=str)
def test_gradients_of_weights(case: Case, target: str, last: bool, named: bool) -> None:
    """Sums over a batch and all pixels, beside those in float64."""
    n = len(case.sizes)
    sizes = tuple(symbol(f"d{i}") for i in range(n)) if named else case.sizes
    run = executable(gradient(case, sizes, last), Options(target=target, cache=False))
    for batch in (0, 1, 3):
        rng = np.random.default_rng(batch)
        x = rng.standard_normal((batch, case.groups * case.inputs, *case.sizes), np.float32)
        zeros = np.zeros(case.weight_shape)
        g = rng.standard_normal(summed(case, x, zeros).shape, np.float32)
        want = zeros
        for index in np.ndindex(case.inputs, *case.kernel):  # the sum is linear in the weight
            one = np.zeros(case.weight_shape)
            one[(slice(None), *index)] = 1
            want[(slice(None), *index)] = (summed(case, x, one) * g).sum((0, *range(2, n + 2)))
        order = (0, *range(2, n + 2), 1) if last else tuple(range(n + 2))
        got = run(*(np.ascontiguousarray(a.transpose(order)) for a in (x, g)))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6 * max(1, g.size) ** 0.5)


@pytest.mark.parametrize("channels", [2, 4])
def test_groups_keep_what_is_not_finite(channels: int) -> None:
    """No element reaches the outputs of other groups, though vectors hold several."""
    case = Case.of(9, channels, channels, (6, 17), 3)
    x = np.zeros((1, 9 * channels, 6, 17), np.float32)
    x[0, 3 * channels, 2, 8] = np.nan
    weight = np.ones(case.weight_shape, np.float32)
    y = executable(programmed(case, case.sizes, weight))(x)
    inside = np.zeros(y.shape, bool)
    inside[0, 3 * channels : 4 * channels, 1:4, 7:10] = True
    np.testing.assert_array_equal(np.isnan(y), inside)


def printed(case: Case, target: str) -> list[str]:
    """The functions of the kernels that convolve."""
    program, backend = programmed(case, case.sizes, drawn(case)), CPU(find(target))
    printer = KernelPrinter(backend.target)
    with context():
        pipeline.run(pipeline.parse("decompose,layout,pack,fuse,release"), program, Environment(backend))
        for operation in program.block.operations:
            group = operation.opview
            if isinstance(group, Group) and "burn.conv" in str(group):
                printer.group(group)
    return printer.functions


@pytest.mark.parametrize("target", ["avx512", "avx2", "generic", "neon", "simd128", "rvv"])
@pytest.mark.parametrize("channels", [2, 3, 4, 8])
def test_no_element_is_gathered(channels: int, target: str) -> None:
    """A vector's elements are loaded as a span and shuffled, or a group is a matmul."""
    functions, lanes = printed(Case.of(32, channels, channels, (9, 11), 3), target), find(target).lanes(4)
    assert not any("masked.gather" in text for text in functions)
    assert any("vector.shuffle" in text for text in functions) == (2 * channels <= lanes)


@pytest.mark.parametrize(
    ("outputs", "target"), [(32, "avx512"), (24, "avx2"), (40, "avx2"), (12, "generic"), (20, "neon")]
)
@pytest.mark.parametrize("kernel", [(1, 2), (2, 1), (1, 1)])
def test_no_element_is_gathered_for_whole_vectors_of_outputs(
    kernel: tuple[int, int], outputs: int, target: str
) -> None:
    """The lanes are outputs, whose vectors lie within a group, not the inputs of a group."""
    case = Case(16, 8, outputs, (9, 11), kernel, (1, 1), (1, 1), (0, 0), (0, 0))
    assert not any("masked.gather" in text for text in printed(case, target))
