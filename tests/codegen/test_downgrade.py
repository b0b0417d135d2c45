"""LLVM's text for an older LLVM: every form of a float, and kernels of every type through ziglang's clang."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from running import same
from zig import assembled

from burn.codegen.cpu.math import FUNCTIONS
from burn.codegen.cpu.target import TARGETS
from burn.codegen.host.downgrade import older
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.errors import CompileError
from burn.options import Options
from burn.runtime.executable import Executable

pytest.importorskip("ziglang")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def double(x: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"


@pytest.mark.parametrize(
    ("newer", "wanted"),
    [
        ("  %1 = fadd float %0, f0x3DCCCCCD", f"  %1 = fadd float %0, {double(float(np.float32(0.1)))}"),
        ("  %1 = fadd double %0, f0x3FB999999999999A", f"  %1 = fadd double %0, {double(0.1)}"),
        ("splat (half f0x3C00)", "splat (half 0xH3C00)"),
        ("splat (bfloat f0x3F80)", "splat (bfloat 0xR3F80)"),
        ("float 4.166720e-02", f"float {double(float(np.float32(4.166720e-02)))}"),
        ("double -5.0e-01", f"double {double(-0.5)}"),
        ("half 1.000000e+00, half -2.5", "half 0xH3C00, half 0xHC100"),
        ("bfloat 1.000000e+00", "bfloat 0xR3F80"),
        ("phi float [ -inf, %a ], [ 0.0, %b ]", f"phi float [ {double(-np.inf)}, %a ], [ {double(0.0)}, %b ]"),
        ("float +qnan, float -qnan", "float 0x7FF8000000000000, float 0xFFF8000000000000"),
        ("float f0x7FA00001", "float 0x7FF4000020000000"),
        ("float f0x00000001", f"float {double(2.0**-149)}"),
        ("double +inf", "double 0x7FF0000000000000"),
        ("half +qnan, bfloat inf", "half 0xH7E00, bfloat 0xR7F80"),
        ("<2 x i1> <i1 true, i1 false>, float 0.0", f"<2 x i1> <i1 true, i1 false>, float {double(0.0)}"),
        ('@a.1.5 = "float 1.5" ; 2.5 inf', '@a.1.5 = "float 1.5" ; 2.5 inf'),
        ("  %1.5 = load float, ptr %0, align 4", "  %1.5 = load float, ptr %0, align 4"),
        ('!2 = !{!"llvm.loop.vectorize.disable"}', '!2 = !{!"llvm.loop.vectorize.enable", i1 false}'),
    ],
)
def test_text_for_an_older_llvm(newer: str, wanted: str) -> None:
    assert older(newer) == wanted
    assert older(f"a\n{newer}\n\nb") == f"a\n{wanted}\n\nb"


@pytest.mark.parametrize(
    "text",
    [
        "%1 = add i32 %0, f0x3F800000",  # no type in front
        "ret 1.5",
        "fp128 1.5",
        "float f0x3F80",  # bits of another format
        "double f0x3F800000",
        "float +snan(0x1)",
        "float +nan(0x123)",
    ],
)
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(CompileError, match="cannot be written for another compiler"):
        older(text)


MANY_CONSTANTS = ("exp", "sin", "pow", "isinf", "mod", "min", "shift_right")


def functions(dtypes: tuple[str, ...]) -> Program:
    """On every type: its elementwise functions, a sum, a matmul, a softmax, conversions to all the others."""
    program = Program.create([(f"x_{d}", TensorType(d, (5, 7))) for d in dtypes])
    outputs: list[tuple[str, ir.Value]] = []
    with program.building("all"):
        for dtype, x in zip(dtypes, program.inputs, strict=True):
            floating = dtype.startswith(("float", "bfloat"))
            for name in MANY_CONSTANTS:
                rule = FUNCTIONS[name]
                if rule.floats if floating else rule.signed and rule.unsigned:
                    outputs.append((f"{name}_{dtype}", getattr(ops, name)(*[x] * rule.arity)))
            matmul = ops.dot_general(x, x, lhs_contract=(1,), rhs_contract=(1,))
            outputs += [(f"product_{dtype}", matmul), (f"sum_{dtype}", ops.reduce(x, kind="sum", axes=(1,)))]
            outputs += [(f"{dtype}_to_{other}", ops.cast(x, dtype=other)) for other in dtypes if other != dtype]
            if floating:
                outputs.append((f"softmax_{dtype}", ops.softmax(x, axis=-1)))
    return program.finish(outputs)


FLOATS = ("float64", "float32", "float16", "bfloat16")
PLAIN = ("float32", "float16", "int64", "int8", "uint8")


def test_objects_of_the_text_compute_what_objects_of_this_process_do(tmp_path: Path) -> None:
    generic = TARGETS["generic"]
    if not generic.is_compiled_here:
        pytest.skip("compares with x86-64 code")
    text = compile_program(functions(FLOATS), Options(target=generic, as_text=True))
    theirs = Executable(replace(text, code=assembled(text.code, generic, tmp_path)))
    mine = Executable(compile_program(functions(FLOATS), Options(target=generic)))
    rng = np.random.default_rng(3)
    x = rng.standard_normal((5, 7)) * 3
    x[0] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, 1e30]
    arrays = [x.astype(numpy_dtype(d)) for d in FLOATS]
    same(list(theirs(*arrays)), list(mine(*arrays)))


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("rvv", "rv64gc", "simd128", "cortex-m4")]


@pytest.mark.parametrize("name", ["neon", *OTHERS])
def test_kernels_of_every_type_compile_for_other_cpus(name: str, tmp_path: Path) -> None:
    small = (
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e8m0fnu",
        "float4_e2m1fn",
        "int4",
        "uint4",
        "bool",
    )
    program = Program.create([(f"x_{d}", TensorType(d, (5, 7))) for d in small])
    with program.building("casts"):
        casts = [(f"y_{d}", ops.cast(x, dtype="float32")) for d, x in zip(small, program.inputs, strict=True)]
        casts += [(f"z_{d}", ops.cast(x, dtype=d)) for d, (_, x) in zip(small, casts, strict=True)]
    for made in (program.finish(casts), functions(PLAIN)):
        text = compile_program(made, Options(target=TARGETS[name], as_text=True))
        assert assembled(text.code, TARGETS[name], tmp_path)
