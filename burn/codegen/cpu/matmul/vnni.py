"""Byte instructions: every int32 lane accumulates a run of neighbours along the depth, uint8 times int8.

AVX-512's VNNI multiplies runs of four (vpdpbusd, which does not saturate). Other x86-64 CPUs widen both operands to 16
bits, the lhs beforehand, and accumulate runs of two exactly (pmaddwd). On bytes, pmaddubsw saturates, except with weights
of a few bits. `Target.byte_run` is the length of a CPU's runs.
"""

from __future__ import annotations

from burn.codegen.cpu import convert as conversions
from burn.codegen.host.emit import Function, Int, Value, bits, lanes_of, vector

VNNI, PAIRS = 4, 2
"""Bytes of a run."""

_PAIRS = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}
"""Intrinsics that multiply and add pairs, by the vector's bits."""

FEW_BITS = 32
"""Bytes of the vectors of numbers that `of_few_bits` takes."""


def read_as(run: int) -> str:
    """The element type of the lhs for the multiplication."""
    return "uint8" if run == VNNI else "int16"


def columns(code: Function, base: Value, at: Int, lanes: int, run: int) -> Value:
    """A vector of columns, each a run of the rhs's elements, starting at byte `at`."""
    loaded = code.load(base, at, vector(lanes * run, "i8"))
    return loaded if run == VNNI else conversions.convert(code, loaded, "int8", "int16")


def multiplied(code: Function, sums: Value, left: Value, right: Value, run: int) -> Value:
    """The int32 accumulators after a run. left: a row's run in every lane."""
    type_ = sums.type
    left = code.pure(f"vector.bitcast {left} : {left.type} to {right.type}", right.type)
    if run == VNNI:
        return _call(code, f"llvm.x86.avx512.vpdpbusd.{bits(type_) * lanes_of(type_)}", type_, sums, left, right)
    pairs = _call(code, _PAIRS[bits(type_) * lanes_of(type_)], type_, left, right)
    return _in_order(code, code.op("arith.addi", sums, pairs))


def _in_order(code: Function, sums: Value) -> Value:
    """The same sums, which LLVM does not reassociate. It would add the pairs of unrolled iterations first, with twice as many
    accumulators as there are registers. There is a fence for floats only."""
    floats = vector(lanes_of(sums.type), "f32")
    read = code.raw(f"vector.bitcast {sums} : {sums.type} to {floats}", floats)
    fenced = _call(code, "llvm.arithmetic.fence", floats, read)
    return code.raw(f"vector.bitcast {fenced} : {floats} to {sums.type}", sums.type)


def of_few_bits(code: Function, numbers: Value, signed: Value) -> Value:
    """Multiplies uint8 by int8 and adds pairs in int16: exact if two such results cannot exceed int16."""
    return _call(code, "llvm.x86.avx2.pmadd.ub.sw", vector(FEW_BITS // 2, "i16"), numbers, signed)


def _call(code: Function, name: str, type_: str, *operands: Value) -> Value:
    types = ", ".join(v.type for v in operands)
    return code.raw(f'llvm.call_intrinsic "{name}"({", ".join(map(str, operands))}) : ({types}) -> {type_}', type_)
