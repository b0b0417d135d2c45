"""The bfloat16 instruction of AVX-512: every float32 lane accumulates a pair of neighbours along the depth (vdpbf16ps).

It rounds to nearest after each of the two multiply-adds, and takes denormals as zero. If it is slow (`Target.multiplies_pairs`),
rows are converted to float32 beforehand, and `separated` columns take two multiply-adds.
"""

from __future__ import annotations

from burn.codegen.host.emit import Function, Int, Value, bits, lanes_of, vector

PAIR = 2
"""Elements of a run."""


def columns(code: Function, base: Value, at: Int, lanes: int) -> Value:
    """A vector of columns, each a pair of the rhs's elements, starting at element `at`."""
    return code.load(base, at, vector(lanes * PAIR, "bf16"))


def multiplied(code: Function, sums: Value, left: Value, right: Value) -> Value:
    """The float32 accumulators after a pair. left: a row's pair in every lane."""
    type_ = sums.type
    left = code.pure(f"vector.bitcast {left} : {left.type} to {right.type}", right.type)
    name = f"llvm.x86.avx512bf16.dpbf16ps.{bits(type_) * lanes_of(type_)}"
    call = f'llvm.call_intrinsic "{name}"({sums}, {left}, {right}) : ({type_}, {left.type}, {right.type}) -> {type_}'
    return code.raw(call, type_)


def separated(code: Function, pairs: Value, lanes: int) -> tuple[Value, Value]:
    """The first and the second element of each pair as float32."""
    words, floats = vector(lanes, "i32"), vector(lanes, "f32")
    both = code.pure(f"vector.bitcast {pairs} : {pairs.type} to {words}", words)

    def number(bits: Value) -> Value:
        return code.pure(f"arith.bitcast {bits} : {words} to {floats}", floats)

    first, second = code.const(16, words), code.const(-65536, words)
    return number(code.op("arith.shli", both, first)), number(code.op("arith.andi", both, second))
