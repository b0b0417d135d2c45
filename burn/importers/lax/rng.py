"""rng_bit_generator: random bits from a state, with the bits of XLA on a CPU.

The algorithms are Threefry-2x32 (20 rounds) and Philox-4x32 (10 rounds), by Salmon et al., "Parallel Random Numbers: As Easy
as 1, 2, 3" (SC 2011). A state is uint64: the key, then the counter (one number, or two for Philox).
"""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import convert, number, part, reshape
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import DTYPES, type_of
from burn.errors import TypeMismatch

ALGORITHMS = ("THREE_FRY", "PHILOX", "DEFAULT")

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_PHILOX = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def rng_bit_generator(state: Value, algorithm: str, shape: Sequence[Dim], dtype: str) -> tuple[Value, Value]:
    """(the next state, random bits of an unsigned type). Shapes: state [2] or [3] uint64 -> the same, `shape`.

    algorithm: "THREE_FRY", "PHILOX" or "DEFAULT", which is Philox, as on XLA's CPU. Raises TypeMismatch."""
    if algorithm not in ALGORITHMS:
        raise TypeMismatch("an unknown algorithm", [f"'{algorithm}' is none of {', '.join(ALGORITHMS)}"])
    (size,) = type_of(state).shape
    if type_of(state).dtype != "uint64" or not isinstance(size, int) or size not in (2, 3):
        raise TypeMismatch("a random state is 2 or 3 numbers of uint64", [f"not {type_of(state)}"])
    sizes = tuple(d for d in shape if isinstance(d, int))
    if len(sizes) != len(shape):
        raise TypeMismatch("random bits are of fixed sizes", [f"not {list(shape)}"])
    bits = DTYPES[dtype].bits
    key = _split_words(reshape(part(state, 0, 0, 1), ()))
    counter = [reshape(part(state, 0, i, 1), ()) for i in range(1, size)]
    draw = _threefry if algorithm == "THREE_FRY" else _philox
    wide = "uint64" if bits == 64 else "uint32"
    after, found = draw(key, counter, sizes, wide)
    rows = [part(state, 0, 0, 1), *(reshape(word, (1,)) for word in after)]
    return ops.concat(rows, axis=0), ops.bitcast(_narrow(found, bits), dtype=dtype)


def _narrow(x: Value, bits: int) -> Value:
    return convert(x, f"uint{bits}")


def _split_words(word: Value) -> tuple[Value, Value]:
    """The lower and the upper 32 bits of uint64."""
    low = convert(ops.and_(word, number(2**32 - 1, "uint64")), "uint32")
    return low, convert(ops.shift_right(word, number(32, "uint64")), "uint32")


def _joined(low: Value, high: Value) -> Value:
    upper = ops.shift_left(convert(high, "uint64"), number(32, "uint64"))
    return ops.or_(upper, convert(low, "uint64"))


def _word(value: int) -> Value:
    return number(value, "uint32")


# ---- Threefry ----------------------------------------------------------------------------------------------------------
def _threefry(
    key: tuple[Value, Value], counter: list[Value], shape: tuple[int, ...], dtype: str
) -> tuple[list[Value], Value]:
    """For 32 bits the numbers of one block are neighbours along the first axis of an even size (or else the longest)."""
    if len(counter) != 1:
        raise TypeMismatch("the state of Threefry is 2 numbers", [f"not {1 + len(counter)}"])
    if dtype == "uint64":
        count = _count(shape)
        inputs = ops.add(counter[0], reshape(ops.iota(shape=(count,), axis=0, dtype="uint64"), shape))
        return [ops.add(counter[0], number(count, "uint64"))], _joined(*threefry2x32(key, _split_words(inputs)))
    if not shape:
        after, found = _threefry(key, counter, (2,), dtype)
        return after, reshape(part(found, 0, 0, 1), ())
    even = [axis for axis, size in enumerate(shape) if size % 2 == 0]
    axis = even[0] if even else max(range(len(shape)), key=lambda a: (shape[a], -a))
    half = tuple((size + 1) // 2 if a == axis else size for a, size in enumerate(shape))
    count = _count(half)
    inputs = ops.add(counter[0], reshape(ops.iota(shape=(count,), axis=0, dtype="uint64"), half))
    apart = (*half[: axis + 1], 1, *half[axis + 1 :])
    pair = [reshape(word, apart) for word in threefry2x32(key, _split_words(inputs))]
    whole = tuple(2 * size if a == axis else size for a, size in enumerate(half))
    found = reshape(ops.concat(pair, axis=axis + 1), whole)
    return [ops.add(counter[0], number(count, "uint64"))], part(found, axis, 0, shape[axis])


def threefry2x32(key: tuple[Value, Value], words: tuple[Value, Value]) -> tuple[Value, Value]:
    """20 rounds of Threefry on two words of uint32, with a key of two. Shapes: all broadcast."""
    first, second = key
    keys = (first, second, ops.xor(ops.xor(first, second), _word(_PARITY)))
    x, y = ops.add(words[0], keys[0]), ops.add(words[1], keys[1])
    for step in range(5):
        for rotation in _ROTATIONS[step % 2]:
            x = ops.add(x, y)
            y = ops.xor(x, _rotated(y, rotation))
        x = ops.add(x, keys[(step + 1) % 3])
        y = ops.add(y, ops.add(keys[(step + 2) % 3], _word(step + 1)))
    return x, y


def _rotated(x: Value, distance: int) -> Value:
    return ops.or_(ops.shift_left(x, _word(distance)), ops.shift_right(x, _word(32 - distance)))


# ---- Philox ------------------------------------------------------------------------------------------------------------
def _philox(
    key: tuple[Value, Value], counter: list[Value], shape: tuple[int, ...], dtype: str
) -> tuple[list[Value], Value]:
    words = _count(shape) * (2 if dtype == "uint64" else 1)
    blocks = (words + 3) // 4
    low, high = counter if len(counter) == 2 else (counter[0], _joined(*key))  # as XLA extends a short state
    step = ops.iota(shape=(blocks,), axis=0, dtype="uint64")
    lows, highs = _sum128(low, high, step)
    rounds = philox4x32(key, (*_split_words(lows), *_split_words(highs)))
    columns = list(rounds) if dtype == "uint32" else [_joined(*rounds[:2]), _joined(*rounds[2:])]
    table = ops.concat([reshape(c, (blocks, 1)) for c in columns], axis=1)
    flat = reshape(table, (blocks * len(columns),))
    after = _sum128(low, high, number(blocks, "uint64"))
    return list(after)[: len(counter)], reshape(part(flat, 0, 0, _count(shape)), shape)


def _sum128(low: Value, high: Value, more: Value) -> tuple[Value, Value]:
    """A number of 128 bits in two words, plus one of 64."""
    total = ops.add(low, more)
    carry = convert(ops.lt(total, low), "uint64")
    return total, ops.add(high, carry)


def philox4x32(key: tuple[Value, Value], words: Sequence[Value]) -> tuple[Value, Value, Value, Value]:
    """10 rounds of Philox on four words of uint32, with a key of two."""
    a, b, c, d = words
    first, second = key
    for _ in range(10):
        low_a, high_a = _multiply_wide(a, _PHILOX[0])
        low_c, high_c = _multiply_wide(c, _PHILOX[1])
        a, b, c, d = (
            ops.xor(ops.xor(high_c, b), first),
            low_c,
            ops.xor(ops.xor(high_a, d), second),
            low_a,
        )
        first, second = ops.add(first, _word(_WEYL[0])), ops.add(second, _word(_WEYL[1]))
    return a, b, c, d


def _multiply_wide(x: Value, factor: int) -> tuple[Value, Value]:
    return _split_words(ops.mul(convert(x, "uint64"), number(factor, "uint64")))


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
