"""Quantisation and dequantisation inside a kernel: bytes stay floats in registers, with the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu.target import host_targets
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import Expr, LoopVar
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import Apply, Buffer, Const, Convert, Load, LoopKernel, Scalar, Stage, Write
from burn.kernels.requantize import in_registers
from burn.kernels.text import kernel_text
from burn.options import Options
from burn.runtime.host import features

I = Expr.of(LoopVar("i0", 8))  # noqa: E741
X, S, B = (Load("float32", number, I) for number in range(3))


def listing(*values: Scalar) -> list[str]:
    """The lines of a kernel that writes the values, in registers."""
    i = LoopVar("i0", 8)
    buffers = (*(Buffer("float32", "read") for _ in range(3)), *(Buffer(v.dtype, "write") for v in values))
    writes = tuple(Write(3 + number, Expr.of(i), value) for number, value in enumerate(values))
    text = kernel_text(in_registers(LoopKernel((i,), (Stage((), (), writes),), buffers)))
    return [line.strip() for line in text.splitlines() if "=" in line]


def number(value: float) -> Const:
    return Const("float32", float(value))


def quantised(x: Scalar, zero: int = 3, low: float = -3.0, high: float = 252.0, dtype: str = "uint8") -> Scalar:
    clamped = Apply("float32", "min", (Apply("float32", "max", (x, number(low))), number(high)))
    steps = Convert("int32", Apply("float32", "round", (clamped,)))
    return Convert(dtype, Apply("int32", "add", (steps, Const("int32", zero))))


def again(q: Scalar, zero: int = 3) -> Scalar:
    return Convert("float32", Apply("int32", "sub", (Convert("int32", q), Const("int32", zero))))


CLAMPED = ["%0 = b0[i0] : float32", "%1 = -3.0 : float32", "%2 = max %0, %1 : float32"]
CLAMPED += ["%3 = 252.0 : float32", "%4 = min %2, %3 : float32", "%5 = round %4 : float32"]


def test_bytes_and_back_are_the_rounded_number() -> None:
    assert listing(again(quantised(X))) == [*CLAMPED, "%6 = 0.0 : float32", "%7 = add %5, %6 : float32", "b3[i0] = %7"]


def test_another_zero_point_is_a_float() -> None:
    assert listing(again(quantised(X), zero=1)) == [
        *CLAMPED,
        "%6 = 2.0 : float32",
        "%7 = add %5, %6 : float32",
        "b3[i0] = %7",
    ]


def test_a_stored_byte_is_converted() -> None:
    lines = listing(quantised(X), again(quantised(X)))
    assert any("convert" in line and "uint8" in line for line in lines)
    assert not any("convert" in line and "uint8 : int32" in line for line in lines)


@pytest.mark.parametrize(
    "kept",
    [
        again(quantised(X, low=-4.0)),  # it wraps around below
        again(quantised(X, high=253.0)),
        again(quantised(X, zero=4, dtype="int8")),
        again(quantised(X, low=-2.5)),  # it is no integer at its bound
        again(Load("uint8", 0, I)),
    ],
    ids=["below", "above", "int8", "fraction", "memory"],
)
def test_numbers_that_may_change_are_converted(kept: Scalar) -> None:
    assert any("convert" in line and ": int32" in line for line in listing(kept))


def test_a_sum_under_the_clamp_is_fused() -> None:
    scaled = Apply("float32", "mul", (X, S))
    positive = Apply("float32", "max", (Apply("float32", "add", (scaled, B)), number(0)))
    assert any("= fma " in line for line in listing(quantised(positive)))
    assert any("= fma " in line for line in listing(quantised(Apply("float32", "add", (B, scaled)))))
    assert not any(
        "= fma " in line for line in listing(Apply("float32", "round", (Apply("float32", "add", (scaled, B)),)))
    )


@pytest.mark.parametrize("target", [target.name for target in host_targets(features())])
@pytest.mark.parametrize(
    ("first", "second"), [("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8"), ("int16", "uint8")]
)
def test_chains_of_quantisations(first: str, second: str, target: str) -> None:
    """Scales are powers of two, so that numpy has the same ties and every step is exact."""
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.integers(-3000, 3000, 1021) / 8, [np.inf, -np.inf, 1e30, -0.0, 0.5, -0.5]]).astype(
        "float32"
    )
    zeros = {dtype: int(rng.integers(np.iinfo(dtype).min // 2, np.iinfo(dtype).max // 2)) for dtype in (first, second)}

    def full(value: float, dtype: str = "float32") -> object:
        return ops.full(shape=(), dtype=dtype, value=float(value), bits=None if dtype == "float32" else int(value))

    program = Program.create([("x", TensorType("float32", x.shape))])
    with program.building("p"):
        q = ops.quantize(program.inputs[0], full(0.5), full(zeros[first], first), dtype=first)
        d = ops.dequantize(q, full(0.5), full(zeros[first], first), dtype="float32")
        s = ops.relu(ops.add(d, full(1.25)))
        r = ops.quantize(s, full(2.0), full(zeros[second], second), dtype=second)
        e = ops.dequantize(r, full(2.0), full(zeros[second], second), dtype="float32")
    found = executable(program.finish([("q", q), ("r", r), ("e", e)]), Options(target=target))(x)

    def steps(value: np.ndarray, scale: float, dtype: str) -> np.ndarray:
        limits = np.iinfo(dtype)
        return np.clip(np.rint(value.astype("float64") / scale) + zeros[dtype], limits.min, limits.max)

    wanted = steps(x, 0.5, first)
    sums = np.maximum((wanted - zeros[first]) * 0.5 + 1.25, 0)
    then = steps(sums, 2.0, second)
    for got, want in zip(found, (wanted, then, (then - zeros[second]) * 2.0), strict=True):
        np.testing.assert_array_equal(got, want)
