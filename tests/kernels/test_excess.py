"""Kernels of mixed precision: values between two operations are not rounded, those in memory are."""

from __future__ import annotations

import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from burn.codegen.cpu.target import TARGETS, host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.dims import Expr, LoopVar
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import (
    Apply,
    Buffer,
    Const,
    Convert,
    Fetched,
    Load,
    LoopKernel,
    Rewriter,
    Scalar,
    Stage,
    Where,
    Write,
)
from burn.kernels.excess import coarsened, without_rounding
from burn.kernels.gelu import gelu_of
from burn.kernels.text import kernel_text
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

BF16 = np.dtype(ml_dtypes.bfloat16)


def listing(*values: Scalar) -> list[str]:
    """The lines of a kernel that writes the values, of the kernel without rounding."""
    i = LoopVar("i0", 8)
    buffers = (Buffer("bfloat16", "read"), Buffer("float32", "read"), *(Buffer(v.dtype, "write") for v in values))
    writes = tuple(Write(2 + number, Expr.of(i), value) for number, value in enumerate(values))
    text = kernel_text(without_rounding(LoopKernel((i,), (Stage((), (), writes),), buffers)))
    return [line.strip() for line in text.splitlines() if "=" in line]


I = Expr.of(LoopVar("i0", 8))  # noqa: E741
HALF, SINGLE = Load("bfloat16", 0, I), Load("float32", 1, I)
ROUNDED = Convert("bfloat16", SINGLE)


def test_a_sum_is_rounded_when_it_is_written() -> None:
    total = Apply("bfloat16", "add", (ROUNDED, HALF))
    assert listing(Apply("bfloat16", "mul", (total, total))) == [
        "%0 = b1[i0] : float32",
        "%1 = b0[i0] : bfloat16",
        "%2 = convert %1 from bfloat16 : float32",
        "%3 = add %0, %2 : float32",
        "%4 = mul %3, %3 : float32",
        "%5 = convert %4 from float32 : bfloat16",
        "b2[i0] = %5",
    ]


def test_conversions_there_and_back() -> None:
    assert listing(Convert("float32", ROUNDED)) == ["%0 = b1[i0] : float32", "b2[i0] = %0"]


def test_operands_are_converted_once() -> None:
    lines = listing(Apply("bfloat16", "add", (HALF, HALF)), Apply("bfloat16", "mul", (HALF, HALF)))
    assert sum("from bfloat16" in line for line in lines) == 1


def test_padding() -> None:
    padded = Where("bfloat16", ((I, 4),), Apply("bfloat16", "neg", (HALF,)), Const("bfloat16", 0))
    assert sum("from float32" in line for line in listing(Apply("bfloat16", "abs", (padded,)))) == 1


def marks(*values: Scalar) -> list[bool]:
    """For each sigmoid of a kernel that writes the values, if it may have fewer digits."""
    i = LoopVar("i0", 8)
    buffers = (Buffer("bfloat16", "read"), Buffer("float32", "read"), *(Buffer(v.dtype, "write") for v in values))
    writes = tuple(Write(2 + number, Expr.of(i), value) for number, value in enumerate(values))
    lines = kernel_text(coarsened(LoopKernel((i,), (Stage((), (), writes),), buffers))).splitlines()
    return ["coarse sigmoid" in line for line in lines if "sigmoid" in line]


def test_functions_with_fewer_digits() -> None:
    """Only if all readers round the result, and no sum is in between."""
    gate = Apply("float32", "sigmoid", (SINGLE,))
    silu = Apply("float32", "mul", (SINGLE, gate))
    assert marks(Convert("bfloat16", gate)) == marks(Convert("bfloat16", silu)) == [True]
    assert marks(silu) == marks(Convert("bfloat16", silu), gate) == [False]
    assert marks(Convert("bfloat16", Apply("float32", "sub", (Const("float32", 1.0), gate)))) == [False]
    assert marks(Convert("float16", gate)) == [False]


def test_an_index_is_computed_with_all_digits() -> None:
    """Also where a rounded result reads the same sigmoid."""
    gate = Apply("float32", "sigmoid", (SINGLE,))
    index = Convert("int64", Apply("float32", "mul", (gate, Const("float32", 7.0))))
    picked = Load("float32", 1, Expr.of(Fetched("f0", 8, index, "site", certain=True)))
    assert marks(Convert("bfloat16", gate), Convert("bfloat16", picked)) == [False]


def test_sigmoid_with_fewer_digits() -> None:
    """2^-13.8 before rounding, at all sizes; special values as usual."""
    x = np.concatenate(
        [np.linspace(-87, 87, 4001), np.linspace(-3, 3, 999), [0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38]]
    )
    x = x.astype(np.float32)
    program = Program.create([("x", TensorType("float32", x.shape))])
    with program.building("silu"):
        y = ops.cast(ops.mul(program.inputs[0], ops.sigmoid(program.inputs[0])), dtype="bfloat16")
    run = Executable(compile_program(program.finish([("y", y)]), Options(precision="bfloat16", cache=False)))
    wide = x.astype("f8")
    with np.errstate(all="ignore"):
        want = wide / (1 + np.exp(-wide))
    got = run(x).astype("f8")
    normal = np.isfinite(wide)
    assert (np.abs(got[normal] - want[normal]) <= (2.0**-8 + 2.0**-13.8) * np.abs(want[normal]) + 2.0**-126).all()
    assert np.isposinf(got[-5]) and np.isnan(got[-3])


def gelu(x: Scalar, by_tanh: bool = False) -> Apply:
    """GELU's formula on float32, as the dialect decomposes it."""

    def apply(function: str, *args: Scalar | float) -> Apply:
        return Apply("float32", function, tuple(a if isinstance(a, Scalar) else Const("float32", a) for a in args))

    if by_tanh:
        cube = apply("mul", apply("mul", apply("mul", x, x), x), 0.044715)
        curve = apply("tanh", apply("mul", apply("add", x, cube), math.sqrt(2 / math.pi)))
    else:
        curve = apply("erf", apply("mul", x, math.sqrt(0.5)))
    return apply("mul", apply("mul", x, 0.5), apply("add", curve, 1.0))


def test_gelu_is_recognised() -> None:
    assert gelu_of(gelu(SINGLE)) == (SINGLE, "erf")
    assert gelu_of(gelu(SINGLE, by_tanh=True)) == (SINGLE, "tanh")
    scaled, other = gelu(SINGLE).args[0], gelu(Convert("float32", HALF)).args[1]
    assert gelu_of(Apply("float32", "mul", (scaled, other))) is None
    for by_tanh, number in ((False, 0.70), (True, 0.80), (True, 0.0447)):
        near = {False: {0.7071067811865476: number}, True: {0.7978845608028654: number, 0.044715: number}}[by_tanh]
        changed = Rewriter(
            lambda d: d,
            lambda n, near=near: replace(n, value=near.get(n.value, n.value)) if isinstance(n, Const) else n,
        )
        assert gelu_of(changed(gelu(SINGLE, by_tanh))) is None


@pytest.mark.parametrize("by_tanh", [False, True])
def test_gelu_is_marked_if_its_readers_round_it(by_tanh: bool) -> None:
    def marked(*values: Scalar) -> bool:
        i = LoopVar("i0", 8)
        buffers = (Buffer("bfloat16", "read"), Buffer("float32", "read"), *(Buffer(v.dtype, "write") for v in values))
        writes = tuple(Write(2 + number, Expr.of(i), value) for number, value in enumerate(values))
        return "coarse mul" in kernel_text(coarsened(LoopKernel((i,), (Stage((), (), writes),), buffers)))

    value = gelu(SINGLE, by_tanh)
    assert marked(Convert("bfloat16", value)) and not marked(Convert("float16", value))
    assert not marked(Convert("bfloat16", value), value)
    assert not marked(Convert("bfloat16", Apply("float32", "add", (value, SINGLE))))


@pytest.mark.parametrize("count", [1, 5, 16, 35])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_with_fewer_digits(approximate: str, count: int) -> None:
    """An error of half of one rounding is added down to -3.5. Below, errors are at most 1e-5."""
    special = [0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-30, -1e-30]
    x = np.concatenate([np.linspace(-9, 9, 35 * 160 - 200), np.linspace(-0.01, 0.01, 200 - len(special)), special])
    x = x.astype(np.float32).reshape(-1, count)
    program = Program.create([("x", TensorType("float32", x.shape))])
    with program.building("gelu"):
        y = ops.cast(ops.gelu(program.inputs[0], approximate=approximate), dtype="bfloat16")
    run = Executable(compile_program(program.finish([("y", y)]), Options(precision="bfloat16", cache=False)))
    wide = x.astype("f8")
    with np.errstate(all="ignore"):
        curve = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
        by_erf = np.array([v * math.erfc(-v / math.sqrt(2)) / 2 for v in wide.flat]).reshape(x.shape)
        want = by_erf if approximate == "none" else wide / (1 + np.exp(-2 * curve))
    got = run(x).astype("f8")
    normal = np.isfinite(wide)
    bound = (2.0**-8 + np.where(wide > -3.5, 2.0**-9, 0)) * np.abs(want) + np.where(wide > -3.5, 0, 1e-5)
    assert (np.abs(got[normal] - want[normal]) <= bound[normal]).all()
    assert np.isposinf(got.flat[-7]) and np.isnan(got.flat[-5])
    assert got.flat[-6] == 0 or np.isnan(got.flat[-6])  # of -inf: 0 by polynomials, NaN by the formula


@pytest.mark.parametrize("function", ["nextafter", "copysign"])
def test_functions_of_the_type_stay(function: str) -> None:
    """`nextafter` depends on the spacing of numbers; mixed precision computes neither of them in half precision."""
    lines = listing(Apply("bfloat16", function, (ROUNDED, HALF)))
    assert any(f"{function} " in line and line.endswith(": bfloat16") for line in lines)


@pytest.mark.parametrize("count", [1, 7, 16, 33])
def test_rounding_by_an_instruction(count: int) -> None:
    """To nearest, ties to even, as ml_dtypes rounds; below 2^-126 the result may be zero."""
    if not any(target.name == "avx512bf16" for target in host_targets(features())):
        pytest.skip("this CPU has no AVX512-BF16")
    rng = np.random.default_rng(count)
    program = Program.create([("x", TensorType("float32", (64, count)))])
    with program.building("cast"):
        y = ops.cast(program.inputs[0], dtype="bfloat16")
    target = replace(TARGETS["avx512bf16"], mixed=True)
    run = Executable(compile_program(program.finish([("y", y)]), Options(target=target, cache=False)))
    x = rng.integers(0, 2**32, (64, count), dtype=np.uint32).view(np.float32)
    x[:8] = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1 + 2.0**-8, 1 + 3 * 2.0**-8], np.float32)[:, None]
    got, want = run(x), x.astype(BF16)
    same = (got.view(np.uint16) == want.view(np.uint16)) | (np.isnan(x) & np.isnan(got.astype(np.float32)))
    tiny = (np.abs(x) < 2.0**-126) & (got.astype(np.float32) == 0)
    assert (same | tiny).all()
