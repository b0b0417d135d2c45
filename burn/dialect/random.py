"""Random numbers from a key: equal keys give equal numbers, for any number of threads. Composites.

A key is uint32[2]. Keys derive from other keys by counting (`derived`). A program without an explicit key derives its
keys from its random state (`RandomKey`), which the executable supplies at each run.

The generator is Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), a
cipher applied to the element's index: integer pointwise ops compute every element independently.
"""

from __future__ import annotations

import math

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.op import DTypeName, Op, Operand, Variadic
from burn.dialect.types import FLOATS, INTEGERS, RANDOM_STATE, TensorType, type_of

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
ROUNDS = 20

SPLIT, FOLD = 0x80000001, 0x80000002
"""The high word of counters for new keys; counters for random numbers stay far below it."""

Words = tuple[ir.Value, ir.Value]
"""A key, or a counter, as two scalars (or tensors of a shape)."""


def check_key(cls: type[Op], key: TensorType) -> None:
    if key != TensorType("uint32", (2,)):
        cls.fail(f"the key must be uint32[2], not {key}")


class RandomBits(Op, name="random_bits"):
    """Two tensors of random 32-bit words. Shapes: key [2] uint32 -> shape, shape; uint32."""

    key: Operand
    shape: tuple[Dim, ...]

    @classmethod
    def infer(cls, key: TensorType, shape: tuple[Dim, ...]) -> list[TensorType]:
        check_key(cls, key)
        return [TensorType("uint32", shape)] * 2

    @classmethod
    def decompose(cls, key: ir.Value, shape: tuple[Dim, ...]) -> list[ir.Value]:
        index = ops.reshape(ops.iota(shape=(product(shape),), axis=0, dtype="uint64"), shape=shape)
        high, low = words(index)
        return list(threefry(element(key, 0), element(key, 1), low, high))


def threefry(k0: ir.Value, k1: ir.Value, x0: ir.Value, x1: ir.Value) -> Words:
    """The cipher, applied to two words of counter with two words of key."""
    schedule = (k0, k1, ops.xor(ops.xor(k0, k1), number(PARITY, "uint32")))
    x0, x1 = ops.add(x0, k0), ops.add(x1, k1)
    for group in range(ROUNDS // 4):
        for rotation in ROTATIONS[group % 2]:
            x0 = ops.add(x0, x1)
            left = ops.shift_left(x1, number(rotation, "uint32"))
            x1 = ops.xor(x0, ops.or_(left, ops.shift_right(x1, number(32 - rotation, "uint32"))))
        x0 = ops.add(x0, schedule[(group + 1) % 3])
        x1 = ops.add(ops.add(x1, schedule[(group + 2) % 3]), number(group + 1, "uint32"))
    return x0, x1


def derived(key: Words, counter: ir.Value, domain: int) -> Words:
    """New keys, one for each element of `counter` (uint32)."""
    high = broadcast_to(number(domain, "uint32"), type_of(counter).shape)
    return threefry(*key, counter, high)


def words(value: ir.Value) -> Words:
    """The high and the low word of 64-bit integers."""
    value = convert(value, "uint64")
    low = ops.cast(ops.and_(value, number(0xFFFFFFFF, "uint64")), dtype="uint32")
    return ops.cast(ops.shift_right(value, number(32, "uint64")), dtype="uint32"), low


def element(x: ir.Value, index: int) -> ir.Value:
    """One element of a vector, as a scalar."""
    return ops.reshape(ops.slice(x, starts=(index,), sizes=(1,), steps=(1,)), shape=())


class RandomKey(Op, name="random_key"):
    """The key of one random draw in a program, new at each run and in each iteration of the enclosing loops.

    Shapes: state [2] uint64, the run's random state; iterations... [] integers, of the enclosing loops -> [2] uint32.
    `draw` numbers the draws of a program.
    """

    state: Operand
    iterations: Variadic
    draw: int = 0

    @classmethod
    def infer(cls, state: TensorType, iterations: list[TensorType], draw: int) -> TensorType:
        if state != RANDOM_STATE:
            cls.fail(f"the random state must be uint64[2], not {state}")
        for iteration in iterations:
            if iteration.rank or iteration.dtype not in INTEGERS:
                cls.fail(f"an iteration must be an integer scalar, not {iteration}")
        return TensorType("uint32", (2,))

    @classmethod
    def decompose(cls, state: ir.Value, iterations: list[ir.Value], draw: int) -> ir.Value:
        key = words(element(state, 0))
        counters = [words(element(state, 1))[1], number(draw, "uint32"), *(words(i)[1] for i in iterations)]
        for counter in counters:
            key = derived(key, counter, FOLD)
        return ops.concat([ops.reshape(word, shape=(1,)) for word in key], axis=0)


def unit(word: ir.Value, dtype: str) -> ir.Value:
    """Converts a word to a number in [0, 1): 24 random bits in float32 and 32 in float64."""
    if dtype == "float64":
        return ops.mul(ops.cast(word, dtype=dtype), number(2.0**-32, dtype))
    top = ops.shift_right(word, number(8, "uint32"))
    return ops.mul(ops.cast(top, dtype=dtype), number(2.0**-24, dtype))


class RandomUniform(Op, name="random_uniform"):
    """Numbers uniformly distributed over [low, high). Shapes: key [2] uint32 -> shape."""

    key: Operand
    shape: tuple[Dim, ...]
    dtype: DTypeName = "float32"
    low: float = 0.0
    high: float = 1.0

    @classmethod
    def infer(cls, key: TensorType, shape: tuple[Dim, ...], dtype: str, low: float, high: float) -> TensorType:
        return check_distribution(cls, key, shape, dtype)

    @classmethod
    def decompose(cls, key: ir.Value, shape: tuple[Dim, ...], dtype: str, low: float, high: float) -> ir.Value:
        working = "float64" if dtype == "float64" else "float32"
        first, second = ops.random_bits(key, shape=shape)
        u = unit(first, working)
        if working == "float64":  # 32 + 20 bits: all sums of the two are exact
            rest = ops.cast(ops.shift_right(second, number(12, "uint32")), dtype=working)
            u = ops.add(u, ops.mul(rest, number(2.0**-52, working)))
        return convert(ops.add(ops.mul(u, number(high - low, working)), number(low, working)), dtype)


class RandomNormal(Op, name="random_normal"):
    """Normally distributed numbers, by the Box-Muller transform. Shapes: key [2] uint32 -> shape."""

    key: Operand
    shape: tuple[Dim, ...]
    dtype: DTypeName = "float32"
    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def infer(cls, key: TensorType, shape: tuple[Dim, ...], dtype: str, mean: float, deviation: float) -> TensorType:
        return check_distribution(cls, key, shape, dtype)

    @classmethod
    def decompose(cls, key: ir.Value, shape: tuple[Dim, ...], dtype: str, mean: float, deviation: float) -> ir.Value:
        working = "float64" if dtype == "float64" else "float32"
        first, second = ops.random_bits(key, shape=shape)
        open_unit = ops.sub(number(1.0, working), unit(first, working))  # in (0, 1]: its logarithm is finite
        radius = ops.sqrt(ops.mul(ops.log(open_unit), number(-2.0, working)))
        angle = ops.mul(unit(second, working), number(2 * math.pi, working))
        z = ops.mul(radius, ops.cos(angle))
        return convert(ops.add(ops.mul(z, number(deviation, working)), number(mean, working)), dtype)


def check_distribution(cls: type[Op], key: TensorType, shape: tuple[Dim, ...], dtype: str) -> TensorType:
    check_key(cls, key)
    if dtype not in FLOATS:
        cls.fail(f"random numbers are floats, not {dtype}", "dtype")
    return TensorType(dtype, shape)
