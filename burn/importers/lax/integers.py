"""Integer arithmetic as XLA defines it: results wrap, division by zero gives all ones, and a shift by the width or more leaves
nothing (or the sign)."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert
from burn.dialect.deferred import Value
from burn.dialect.types import type_of
from burn.importers.lax.scalars import bits_of, extreme, kind_of, like, unsigned


def div(a: Value, b: Value) -> Value:
    """The quotient, truncated. x / 0 is -1 (unsigned: the largest number); the smallest number / -1 is itself."""
    zero = ops.eq(b, like(0, b))
    divisor = ops.select(zero, like(1, b), b)
    if kind_of(a) == "uint":
        return ops.select(zero, like(extreme(type_of(a).dtype, True), a), ops.div(a, divisor))
    negated = ops.eq(b, like(-1, b))
    quotient = ops.div(a, ops.select(negated, like(1, b), divisor))
    return ops.select(zero, like(-1, a), ops.select(negated, ops.neg(a), quotient))


def rem(a: Value, b: Value) -> Value:
    """The remainder with the sign of a; x rem 0 is x."""
    special = ops.eq(b, like(0, b))
    if kind_of(a) == "int":
        special = ops.or_(special, ops.eq(b, like(-1, b)))
    rest = ops.fmod(a, ops.select(special, like(1, b), b))
    return ops.select(ops.eq(b, like(0, b)), a, rest)


def _out_of_range(b: Value) -> Value:
    """True where a shift is by the width or more; a negative count is a large one."""
    over = ops.ge(b, like(bits_of(b), b)) if extreme(type_of(b).dtype, True) >= bits_of(b) else None
    if kind_of(b) == "int":
        negative = ops.lt(b, like(0, b))
        return negative if over is None else ops.or_(negative, over)
    return over if over is not None else ops.ne(b, b)


def shift_left(a: Value, b: Value) -> Value:
    over = _out_of_range(b)
    return ops.select(over, like(0, a), ops.shift_left(a, ops.select(over, like(0, b), b)))


def shift_right_logical(a: Value, b: Value) -> Value:
    """Filled with zeros."""
    over = _out_of_range(b)
    dtype = type_of(a).dtype
    word = unsigned(bits_of(a))
    count = ops.select(over, like(0, b), b)
    moved = convert(ops.shift_right(convert(a, word), convert(count, word)), dtype)
    return ops.select(over, like(0, a), moved)


def shift_right_arithmetic(a: Value, b: Value) -> Value:
    """Filled with the highest bit, which of a signed integer is the sign."""
    if kind_of(a) == "uint":
        signed = f"int{bits_of(a)}"
        moved = shift_right_arithmetic(ops.bitcast(a, dtype=signed), ops.bitcast(b, dtype=signed))
        return ops.bitcast(moved, dtype=type_of(a).dtype)
    count = ops.select(_out_of_range(b), like(bits_of(b) - 1, b), b)
    negative = ops.lt(a, like(0, a))
    magnitude = ops.select(negative, ops.not_(a), a)  # not negative, so that zeros are shifted in
    moved = ops.shift_right(magnitude, count)
    return ops.select(negative, ops.not_(moved), moved)


def power(a: Value, b: Value) -> Value:
    """a to the power b by squaring, which wraps. A negative exponent gives 0, but for a = 1 and a = -1."""
    one, two = like(1, a), like(2, b)
    result, base, rest = ops.add(ops.mul(a, like(0, a)), one), a, b
    if kind_of(b) == "int":
        rest = ops.max(b, like(0, b))
    for _ in range(bits_of(b) - (kind_of(b) == "int")):
        odd = ops.ne(ops.and_(rest, like(1, rest)), like(0, rest))
        result = ops.select(odd, ops.mul(result, base), result)
        base, rest = ops.mul(base, base), ops.div(rest, two)
    if kind_of(b) == "uint":
        return result
    odd = ops.ne(ops.and_(b, like(1, b)), like(0, b))
    unit = ops.select(ops.eq(a, one), one, like(0, a))
    if kind_of(a) == "int":
        alternating = ops.select(odd, like(-1, a), one)
        unit = ops.select(ops.eq(a, like(-1, a)), alternating, unit)
    return ops.select(ops.lt(b, like(0, b)), unit, result)


def sign(x: Value) -> Value:
    return ops.sign(x)


def population_count(x: Value) -> Value:
    """The number of bits that are 1."""
    bits, dtype = bits_of(x), type_of(x).dtype
    count = convert(x, unsigned(bits))
    if bits < 8:
        count = ops.and_(convert(count, "uint8"), like(2**bits - 1, convert(count, "uint8")))
    width = max(bits, 8)
    step = 1
    while step < width:
        mask = sum(((1 << step) - 1) << at for at in range(0, width, 2 * step))
        odd = ops.and_(ops.shift_right(count, like(step, count)), like(mask, count))
        count = ops.add(ops.and_(count, like(mask, count)), odd)
        step *= 2
    return convert(count, dtype)


def count_leading_zeros(x: Value) -> Value:
    """The number of zeros above the highest bit; the width for 0."""
    bits, dtype = bits_of(x), type_of(x).dtype
    word = convert(x, unsigned(bits))
    step = 1
    while step < bits:  # every bit below the highest one becomes 1
        word = ops.or_(word, ops.shift_right(word, like(step, word)))
        step *= 2
    return convert(ops.sub(like(bits, word), population_count(word)), dtype) if bits > 4 else _clz_small(word, dtype)


def _clz_small(word: Value, dtype: str) -> Value:
    bits = bits_of(word)
    wide = convert(word, "uint8")
    count = ops.sub(like(bits, wide), population_count(ops.and_(wide, like(2**bits - 1, wide))))
    return convert(count, dtype)


def multiply_high(a: Value, b: Value) -> Value:
    """The upper half of the double-width result of a * b."""
    bits, dtype = bits_of(a), type_of(a).dtype
    upper = shift_right_logical if kind_of(a) == "uint" else shift_right_arithmetic
    if bits < 64:
        wide = f"{kind_of(a)}64"
        whole = ops.mul(convert(a, wide), convert(b, wide))
        return convert(upper(whole, like(bits, whole)), dtype)
    low_bits, half = like(2**32 - 1, a), like(32, a)
    a_low, a_high = ops.and_(a, low_bits), upper(a, half)
    b_low, b_high = ops.and_(b, low_bits), upper(b, half)
    low = shift_right_logical(ops.mul(a_low, b_low), half)
    first = ops.add(ops.mul(a_high, b_low), low)
    second = ops.add(ops.mul(a_low, b_high), ops.and_(first, low_bits))
    carried = ops.add(upper(first, half), upper(second, half))
    return ops.add(ops.mul(a_high, b_high), carried)
