"""Matmuls and convolutions of every element type against float64 and exact integers, on every available CPU target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from burn.codegen.cpu.target import host_targets
from burn.compiler import compile_program, executable
from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.host import features

RUNNABLE = [target.name for target in host_targets(features())]


@dataclass(frozen=True)
class Types:
    """Element types of both operands and of the result."""

    lhs: str
    rhs: str
    result: str

    def __str__(self) -> str:
        return f"{self.lhs}-{self.rhs}-{self.result}"


TYPES = [
    *(Types(t, t, t) for t in ("float16", "bfloat16", "float32", "float64", "int32")),
    *(Types(t, t, "float32") for t in ("float16", "bfloat16")),
    Types("float16", "float32", "float32"),
    *(Types(a, b, "int32") for a, b in (("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int16", "int32"))),
]


def traits(types: Types, target: str) -> tuple[object, ...]:
    """Each kind of sum on each kind of CPU. With VNNI floats are summed as with AVX-512, and tile registers sum no float64."""
    if "int" in types.result:
        return target, "int"
    kind = "half" if types.lhs in ("float16", "bfloat16") else types.result
    as_others = target in ("avx512bf16", "vnni") or (target == "amx" and kind == "float64")
    return "avx512" if as_others else target, kind


EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = numpy_dtype(dtype)
    if "int" in dtype:
        low, high = (0, 255) if dtype == "uint8" else (-128, 127) if dtype == "int8" else (-30000, 30000)
        return rng.integers(low, high, shape, endpoint=True).astype(kind)
    return rng.standard_normal(shape).astype(kind)


class Case:
    """A program being built, with each value in float64 or as integers."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.arrays: list[np.ndarray] = []
        self.types: list[tuple[str, TensorType]] = []

    def input(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        array = numbers(self.rng, shape, dtype)
        self.arrays.append(array)
        self.types.append((f"x{len(self.types)}", TensorType(dtype, shape)))
        return array


def exact(array: np.ndarray) -> np.ndarray:
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)


def check(got: np.ndarray, want: np.ndarray, size: np.ndarray, result: str, depth: int) -> None:
    """`size` is the sum of the terms' magnitudes, which bounds the rounding error."""
    assert got.shape == want.shape and got.dtype == numpy_dtype(result)
    if "int" in result:
        np.testing.assert_array_equal(got, want.astype(np.int32))
        return
    summed = EPSILON["float64" if result == "float64" else "float32"]
    error = np.abs(got.astype(np.float64) - want)
    assert np.all(
        error <= EPSILON[result] * np.abs(want) * 1.01 + summed * (depth + 2) * size + 2.0**-24 * (result == "float16")
    )


def constant(program: Program, array: np.ndarray, dtype: str) -> ir.Value:
    return ops.weight(key=program.weights.add_array(array, "w"), shape=array.shape, dtype=dtype)


SIZES = [
    (1, 5, 1),
    (7, 31, 33),
    (13, 515, 40),
    (40, 1030, 203),
    (1, 130, 300),
    (3, 1, 64),
    (9, 0, 5),
    (0, 3, 4),
    (3, 4, 0),
]


@pytest.mark.covering(of=traits)
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_matmuls(types: Types, target: str) -> None:
    """[m, k] by [k, n]: the rhs an input, a transposed input, and a constant; the lhs as it is and transposed."""
    case = Case(3)
    pairs = [(case.input((m, k), types.lhs), case.input((k, n), types.rhs)) for m, k, n in SIZES]
    program = Program.create(case.types)
    wanted, made = [], []
    attrs: dict[str, Any] = {"dtype": types.result}
    with program.building("products"):
        values = iter(program.inputs)
        for a, b in pairs:
            x, y = next(values), next(values)
            turned = ops.transpose(x, permutation=(1, 0))
            made += [
                ops.dot_general(x, y, lhs_contract=(1,), rhs_contract=(0,), **attrs),
                ops.dot_general(x, constant(program, b, types.rhs), lhs_contract=(1,), rhs_contract=(0,), **attrs),
                ops.dot_general(turned, y, lhs_contract=(0,), rhs_contract=(0,), **attrs),
                ops.dot_general(x, ops.transpose(y, permutation=(1, 0)), lhs_contract=(1,), rhs_contract=(1,), **attrs),
            ]
            wanted += [(exact(a) @ exact(b), np.abs(exact(a)) @ np.abs(exact(b)), a.shape[1])] * 4
    got = executable(program.finish([(f"y{i}", v) for i, v in enumerate(made)]), Options(target=target))(*case.arrays)
    for y, (want, size, depth) in zip(got, wanted, strict=True):
        check(y, want, size, types.result, depth)


@pytest.mark.parametrize("target", RUNNABLE)
def test_contractions_over_two_axes_in_batches(target: str) -> None:
    """Every batch's panels are copied anew, both contracted axes in order."""
    case = Case(5)
    a, b = case.input((3, 40, 5, 103), "float32"), case.input((3, 5, 103, 203), "float32")
    program = Program.create(case.types)
    axes = {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2, 3), "rhs_contract": (1, 2)}
    with program.building("p"):
        y = ops.dot_general(*program.inputs, **axes)
    got = executable(program.finish([("y", y)]), Options(target=target))(*case.arrays)
    want = np.einsum("brij,bijc->brc", exact(a), exact(b))
    check(got, want, np.einsum("brij,bijc->brc", np.abs(exact(a)), np.abs(exact(b))), "float32", 515)


def convolved(x: np.ndarray, w: np.ndarray, stride: int, pad: int, groups: int) -> np.ndarray:
    """x [n, c, h, w], w [o, c / groups, k, k], by the definition."""
    padded = np.pad(exact(x), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    windows = windows.reshape(x.shape[0], groups, x.shape[1] // groups, *windows.shape[2:])
    kernel = exact(w).reshape(groups, -1, *w.shape[1:])
    result = np.einsum("ngchwij,gocij->ngohw", windows, kernel)
    return result.reshape(x.shape[0], w.shape[0], *result.shape[3:])


@pytest.mark.covering(of=traits)
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_convolutions(types: Types, target: str) -> None:
    """Padding, strides and groups; batches of none, one and some."""
    shapes = [(1, 8, 9, 37, 3, 1, 1, 1), (2, 10, 5, 6, 3, 2, 1, 2), (3, 5, 4, 7, 1, 1, 0, 1), (0, 4, 5, 3, 3, 1, 1, 1)]
    case = Case(4)
    pairs = []
    for n, c, d, o, k, _, _, groups in shapes:
        pairs.append((case.input((n, c, d, d), types.lhs), numbers(case.rng, (o, c // groups, k, k), types.rhs)))
    program = Program.create(case.types)
    made, wanted = [], []
    with program.building("convolutions"):
        for x, (a, w), (_, _, _, _, _, stride, pad, groups) in zip(program.inputs, pairs, shapes, strict=True):
            around = {"low": (pad, pad), "high": (pad, pad), "dilations": (1, 1), "groups": groups}
            weight = constant(program, w, types.rhs)
            made.append(ops.conv(x, weight, strides=(stride, stride), **around, dtype=types.result))
            size = convolved(np.abs(exact(a)), np.abs(exact(w)), stride, pad, groups)
            wanted.append((convolved(a, w, stride, pad, groups), size, w[0].size))
    got = executable(program.finish([(f"y{i}", v) for i, v in enumerate(made)]), Options(target=target))(*case.arrays)
    for y, (want, size, depth) in zip(got, wanted, strict=True):
        check(y, want, size, types.result, depth)


def test_half_sums_are_rounded_before_what_follows() -> None:
    """2049 is no float16: the dot product is 2048, and subtracting 2048 from it leaves nothing."""
    program = Program.create([("x", TensorType("float16", (1, 2))), ("y", TensorType("float16", (2, 1)))])
    with program.building("p"):
        x, y = program.inputs
        z = ops.dot_general(x, y, lhs_contract=(1,), rhs_contract=(0,))
        z = ops.sub(z, ops.full(shape=(), dtype="float16", value=2048.0))
    run = executable(program.finish([("z", z)]))
    assert run(np.array([[2048, 1]], np.float16), np.ones((2, 1), np.float16)) == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8"])
def test_weights_are_kept_narrow(dtype: str) -> None:
    """A constant rhs is packed in its own type."""
    weight = numbers(np.random.default_rng(1), (64, 96), dtype)
    program = Program.create([("x", TensorType(dtype, (5, 64)))])
    with program.building("p"):
        result = "int32" if dtype == "uint8" else dtype
        y = ops.dot_general(
            program.inputs[0], constant(program, weight, dtype), lhs_contract=(1,), rhs_contract=(0,), dtype=result
        )
    program = program.finish([("y", y)])
    pipeline.run(pipeline.parse("pack{vector-bytes=64}"), program)
    assert "columns = 96" in str(program.module)
    (packed,) = [c for c in compile_program(program).constants if c.dtype == dtype]
    assert packed.shape == (3, 64, 32)
