"""Quantised matmuls and convolutions on every available CPU target, against exact integers and float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.target import TARGETS, host_targets
from burn.compiler import compile_program, environment, executable
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import LoopKernel
from burn.kernels.builders import kernels
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.host import features

RUNNABLE = [target.name for target in host_targets(features())]


def scalar(number: float, dtype: str) -> ir.Value:
    bits = None if dtype == "float32" else int(number)
    return ops.full(shape=(), dtype=dtype, value=float(number), bits=bits)


def constant(program: Program, array: np.ndarray) -> ir.Value:
    return ops.weight(key=program.weights.add_array(array, "w"), shape=array.shape, dtype=str(array.dtype))


@dataclass(frozen=True)
class Sides:
    """The types of both operands, and their zero points."""

    left: str
    zero: int
    right: str = "int8"
    right_zero: int = 0


SIDES = [
    Sides("uint8", 0),
    Sides("uint8", 131),
    Sides("int8", -7),
    Sides("int8", 0, "uint8", 128),
    Sides("uint8", 3, "int8", 5),
]


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


@pytest.mark.covering
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_quantised_matmuls(sides: Sides, target: str) -> None:
    """QDQ: the float result is exact but for the scale; what is quantised again is within one quantum, and saturates."""
    rng = np.random.default_rng(1)
    sizes = [(1, 1, 1), (7, 31, 33), (13, 64, 70), (5, 130, 16), (0, 8, 4), (3, 6, 0)]
    pairs = [(numbers(rng, (m, k), sides.left), numbers(rng, (k, n), sides.right)) for m, k, n in sizes]
    program = Program.create([(f"x{i}", TensorType(sides.left, x.shape)) for i, (x, _) in enumerate(pairs)])
    scales = [rng.uniform(0.001, 0.01, w.shape[1]).astype("float32") for _, w in pairs]
    made = []
    with program.building("products"):
        for x, (_, w), s in zip(program.inputs, pairs, scales, strict=True):
            left = ops.dequantize(x, scalar(0.05, "float32"), scalar(sides.zero, sides.left), dtype="float32")
            zero = ops.full(shape=s.shape, dtype=sides.right, value=float(sides.right_zero), bits=sides.right_zero)
            right = ops.dequantize(constant(program, w), constant(program, s), zero, dtype="float32", axis=1)
            y = ops.dot_general(left, right, lhs_contract=(1,), rhs_contract=(0,))
            made += [y, ops.quantize(y, scalar(0.7, "float32"), scalar(100, "uint8"), dtype="uint8")]
    got = executable(program.finish([(f"y{i}", v) for i, v in enumerate(made)]), Options(target=target))(
        *(x for x, _ in pairs)
    )
    for y, q, (x, w), s in zip(got[::2], got[1::2], pairs, scales, strict=True):
        total = (x.astype("int64") - sides.zero) @ (w.astype("int64") - sides.right_zero)
        want = total * (np.float32(0.05) * s).astype("float64")
        np.testing.assert_allclose(y, want, rtol=3e-7, atol=0)
        quanta = np.clip(np.rint(want / np.float32(0.7)) + 100, 0, 255)
        assert (np.abs(q.astype("int64") - quanta) <= 1).all() and (q != quanta).mean() < 0.01 if q.size else True


@pytest.mark.parametrize("target", RUNNABLE)
def test_matmuls_do_not_saturate(target: str) -> None:
    """Sums of neighbours exceed 16 bits; int32 wraps as the type does."""
    x = np.full((7, 66000), 255, "uint8")
    w = np.full((66000, 17), -128, "int8")
    program = Program.create([("x", TensorType("uint8", x.shape))])
    with program.building("p"):
        right = constant(program, w)
        y = ops.dot_general(program.inputs[0], right, lhs_contract=(1,), rhs_contract=(0,), dtype="int32")
    got = executable(program.finish([("y", y)]), Options(target=target))(x)
    assert (got == np.array(-255 * 128 * 66000, "int64").astype("int32")).all()


def by_its_own_range(x: ir.Value, w: ir.Value) -> ir.Value:
    """The matmul of a dynamically quantised tensor, dequantised except for the weight's scale."""
    zero, axes = scalar(0.0, "float32"), tuple(range(2))
    low = ops.min(ops.reduce(x, kind="min", axes=axes), zero)
    high = ops.max(ops.reduce(x, kind="max", axes=axes), zero)
    scale = ops.div(ops.sub(high, low), scalar(255.0, "float32"))
    point = ops.cast(ops.round(ops.div(ops.neg(low), scale)), dtype="uint8")
    whole = ops.sub(
        ops.cast(ops.quantize(x, scale, point, dtype="uint8"), dtype="int32"), ops.cast(point, dtype="int32")
    )
    total = ops.dot_general(whole, ops.cast(w, dtype="int32"), lhs_contract=(1,), rhs_contract=(0,), dtype="int32")
    return ops.mul(ops.cast(total, dtype="float32"), scale)


@pytest.mark.covering
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize(("rows", "size"), [(1, 1.0), (7, 1e3), (300, 1.0), (5, 1e-39), (5, 1e-36)])
def test_matmuls_of_dynamically_quantised_tensors(target: str, rows: int, size: float) -> None:
    """By the scale's reciprocal, which for the smallest numbers is none: what is half a step from two bytes may be either."""
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal((rows, 256)) * size).astype("float32"), numbers(rng, (256, 33), "int8")
    program = Program.create([("x", TensorType("float32", (symbol("n"), 256)))])
    with program.building("p"):
        y = by_its_own_range(program.inputs[0], constant(program, w))
    got = np.asarray(executable(program.finish([("y", y)]), Options(target=target))(x), "float64")
    assert np.isfinite(got).all()
    if size > 1e-38:
        low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
        scale = (high - low) / np.float32(255)
        point = np.rint(-low / scale)
        whole = np.clip(np.rint(x / scale) + point, 0, 255) - point
        want = whole.astype("float64") @ w.astype("float64") * float(scale)
        np.testing.assert_allclose(got, want, atol=2 * 128 * float(scale), rtol=1e-6)


@pytest.mark.parametrize(("rows", "apart"), [(symbol("n"), True), (1024, True), (8, False)])
def test_bytes_by_the_range_of_a_whole_tensor_are_made_side_by_side(rows: Dim, apart: bool) -> None:
    """After the reduction of a long tensor to one number, by one thread, the bytes are computed in parallel. Those of a short
    tensor are computed in place."""
    program = Program.create([("x", TensorType("float32", (rows, 256)))])
    with program.building("p"):
        y = by_its_own_range(program.inputs[0], constant(program, np.ones((256, 4), "int8")))
    program = program.finish([("y", y)])
    with context():
        pipeline.run(pipeline.parse("decompose,integers,fuse"), program, environment())
        groups = [o.opview for o in program.block.operations if isinstance(o.opview, Group)]
        made = [call.kernel for group in groups for call in kernels(group, preferences_of(TARGETS["avx2"]))]
    bytes_made = [
        k
        for k in made
        if isinstance(k, LoopKernel) and any(b.dtype == "uint8" and b.access == "write" for b in k.buffers)
    ]
    assert [bool(kernel.parallel) for kernel in bytes_made] == [apart]


@dataclass(frozen=True)
class Shape:
    channels: int
    outputs: int
    size: int
    kernel: int
    stride: int = 1
    pad: int = 0
    groups: int = 1
    dilation: int = 1


SHAPES = [
    Shape(3, 16, 13, 7, 2, 3),
    Shape(8, 70, 9, 3, 1, 1),
    Shape(64, 24, 5, 1),
    Shape(8, 16, 7, 3, 2, 1, 2),
    Shape(8, 8, 7, 3, 1, 1, 8),
    Shape(6, 5, 7, 3, 1, 2, 1, 2),
    Shape(10, 10, 7, 3, 1, 2, 2, 2),
    Shape(37, 37, 11, 5, 2, 2, 37),
    Shape(16, 32, 9, 3, 1, 2, 16, 2),
    Shape(5, 5, 40, 1, 1, 0, 5),
]
"""Among them channels that are no multiple of four, groups of few, and one channel in each with one or two results."""


def convolved(x: np.ndarray, w: np.ndarray, shape: Shape) -> np.ndarray:
    """By the definition; x is padded with zeros."""
    pad, reach = shape.pad, (shape.kernel - 1) * shape.dilation + 1
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(2, 3))
    seen = seen[:, :, :: shape.stride, :: shape.stride, :: shape.dilation, :: shape.dilation]
    seen = seen.reshape(x.shape[0], shape.groups, -1, *seen.shape[2:])
    result = np.einsum("ngchwij,gocij->ngohw", seen, w.reshape(shape.groups, -1, *w.shape[1:]))
    return result.reshape(x.shape[0], w.shape[0], *result.shape[3:])


@pytest.mark.covering
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("sides", SIDES[:3], ids=str)
def test_quantised_convolutions(sides: Sides, target: str) -> None:
    """Padding counts as the zero point, with a bias and a rectifier behind."""
    rng = np.random.default_rng(2)
    xs = [numbers(rng, (2, s.channels, s.size, s.size), sides.left) for s in SHAPES]
    ws = [numbers(rng, (s.outputs, s.channels // s.groups, s.kernel, s.kernel), "int8") for s in SHAPES]
    scales = [rng.uniform(0.001, 0.01, s.outputs).astype("float32") for s in SHAPES]
    biases = [rng.normal(0, 5, (s.outputs, 1, 1)).astype("float32") for s in SHAPES]
    program = Program.create([(f"x{i}", TensorType(sides.left, x.shape)) for i, x in enumerate(xs)])
    made = []
    with program.building("convolutions"):
        for x, w, s, b, shape in zip(program.inputs, ws, scales, biases, SHAPES, strict=True):
            left = ops.dequantize(x, scalar(0.05, "float32"), scalar(sides.zero, sides.left), dtype="float32")
            right = ops.dequantize(constant(program, w), constant(program, s), None, dtype="float32", axis=0)
            around = {"low": (shape.pad,) * 2, "high": (shape.pad,) * 2, "dilations": (shape.dilation,) * 2}
            y = ops.conv(left, right, strides=(shape.stride,) * 2, groups=shape.groups, **around)
            y = ops.relu(ops.add(y, constant(program, b)))
            made += [y, ops.quantize(y, scalar(0.37, "float32"), scalar(3, "uint8"), dtype="uint8")]
    got = executable(program.finish([(f"y{i}", v) for i, v in enumerate(made)]), Options(target=target))(*xs)
    for y, q, x, w, s, b, shape in zip(got[::2], got[1::2], xs, ws, scales, biases, SHAPES, strict=True):
        total = convolved(x.astype("int64") - sides.zero, w.astype("int64"), shape)
        want = np.maximum(total * (np.float32(0.05) * s.astype("float64"))[:, None, None] + b, 0)
        np.testing.assert_allclose(y, want, rtol=2e-6, atol=2e-5)
        quanta = np.clip(np.rint(want / np.float32(0.37)) + 3, 0, 255)
        assert (np.abs(q.astype("int64") - quanta) <= 1).all() and (q != quanta).mean() < 0.01


@pytest.mark.untuned
@pytest.mark.parametrize("sides", SIDES[:3], ids=str)
@pytest.mark.parametrize("pad", [1, 0])
def test_convolutions_that_gain_more_as_floats(sides: Sides, pad: int) -> None:
    """By pairs of int16 a 3 x 3 convolution takes longer than in float32 in the Winograd domain. Bytes are still those of the
    definition, except near ties."""
    rng, shape = np.random.default_rng(5), Shape(128, 96, 14, 3, 1, pad)
    x = numbers(rng, (1, 128, 14, 14), sides.left)
    w = numbers(rng, (96, 128, 3, 3), "int8")
    program = Program.create([("x", TensorType(sides.left, x.shape))])
    with program.building("convolution"):
        left = ops.dequantize(
            program.inputs[0], scalar(0.05, "float32"), scalar(sides.zero, sides.left), dtype="float32"
        )
        right = ops.dequantize(constant(program, w), scalar(0.01, "float32"), None, dtype="float32")
        y = ops.conv(left, right, strides=(1, 1), dilations=(1, 1), low=(pad, pad), high=(pad, pad))
        q = ops.quantize(y, scalar(2.3, "float32"), scalar(128, "uint8"), dtype="uint8")
    program = program.finish([("y", y), ("q", q)])
    want = convolved(x.astype("int64") - sides.zero, w.astype("int64"), shape) * float(
        np.float32(0.05) * np.float32(0.01)
    )
    quanta = np.clip(np.rint(want / np.float32(2.3)) + 128, 0, 255)
    for name in RUNNABLE:
        artefact = compile_program(program.copy(), Options(target=name))
        assert any("tiles" in kernel.name for kernel in artefact.kernels) == (name in ("avx512", "avx2")), name
        y, q = executable(program.copy(), Options(target=name))(x)
        np.testing.assert_allclose(y, want, rtol=0, atol=4e-6 * float(np.abs(want).max()))
        assert (np.abs(q.astype("int64") - quanta) <= 1).all() and (q != quanta).mean() < 1e-3


def test_which_cpus_multiply_bytes() -> None:
    runs = {name: target.byte_run for name, target in TARGETS.items()}
    assert {name for name, run in runs.items() if run == 4} == {"amx", "avx512bf16", "vnni"}
    assert {name for name, run in runs.items() if run == 2} == {"avx512", "avx2", "generic"}


@pytest.mark.parametrize("groups", [1, 16])
def test_bytes_are_what_lies_between_layers(groups: int) -> None:
    """A convolution's result with two users, another convolution and a later sum, is written as bytes, not floats. groups: of the
    second convolution, which may be depthwise."""
    rng = np.random.default_rng(3)
    program = Program.create([("x", TensorType("uint8", (1, 16, 8, 8)))])
    with program.building("residual"):
        half = scalar(0.5, "float32")
        x = ops.dequantize(program.inputs[0], half, None, dtype="float32")
        weights = [
            ops.dequantize(constant(program, numbers(rng, (16, inputs, 3, 3), "int8")), half, None, dtype="float32")
            for inputs in (16, 16 // groups)
        ]
        around = {"strides": (1, 1), "dilations": (1, 1), "low": (1, 1), "high": (1, 1)}
        y = ops.quantize(ops.conv(x, weights[0], **around), half, None, dtype="uint8")
        back = ops.dequantize(y, half, None, dtype="float32")
        z = ops.quantize(ops.add(ops.conv(back, weights[1], groups=groups, **around), back), half, None, dtype="uint8")
    program = program.finish([("z", z)])
    target = next(t.name for t in host_targets(features()) if t.byte_run > 1)
    artefact = compile_program(program, Options(target=target))
    assert sum("conv" in kernel.name for kernel in artefact.kernels) == 2
    sizes = [int(size) for size in artefact.buffers]
    assert max(sizes, default=0) <= 16 * 8 * 8, sizes


def test_devices_without_int8_instructions_keep_quantised_programs() -> None:
    from burn.codegen.cpu.backend import CPU

    for backend in (CPU(TARGETS["neon"]),):
        program = Program.create([("x", TensorType("uint8", (4, 8)))])
        with program.building("p"):
            half = scalar(0.5, "float32")
            left = ops.dequantize(program.inputs[0], half, None, dtype="float32")
            right = ops.dequantize(constant(program, np.ones((8, 4), "int8")), half, None, dtype="float32")
            y = ops.dot_general(left, right, lhs_contract=(1,), rhs_contract=(0,))
        program = program.finish([("y", y)])
        pipeline.run(pipeline.parse("integers"), program, environment(backend))
        assert "int32" not in str(program.module)
