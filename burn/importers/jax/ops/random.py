"""Random numbers: JAX's own generators, traced and built bit for bit. Keys are words (uint32) here, typed or not."""

from __future__ import annotations

from typing import Any

from jax._src.random import core as jax_random
from jax._src.random import philox2x32, philox4x32, prng, threefry2x32, threefry4x32

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, reshape
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import type_of
from burn.importers.jax.dtypes import dtype_name
from burn.importers.jax.equation import Equation, primitive
from burn.importers.lax.conversion import bitcast_convert
from burn.importers.lax.rng import rng_bit_generator as generate
from burn.importers.lax.scalars import full, like


@primitive("random_wrap", "random_unwrap", "random_clone")
def same_words(eqn: Equation, x: Value, **params: Any) -> Value:
    return x


@primitive("random_seed")
def random_seed(eqn: Equation, seeds: Value, *, impl: Any) -> Any:
    return eqn.expand(lambda s: prng.random_seed_impl_base(s, impl=impl), seeds)


@primitive("random_bits")
def random_bits(eqn: Equation, keys: Value, *, bit_width: int, shape: Any) -> Any:
    aval = eqn.operand(0)

    def function(k: Any) -> Any:
        words = prng.random_unwrap(k)
        return prng.random_bits_impl_base(aval.dtype._impl, words, len(aval.shape), bit_width=bit_width, shape=shape)

    return eqn.expand(function, keys)


@primitive("random_split")
def random_split(eqn: Equation, keys: Value, *, shape: Any) -> Any:
    aval = eqn.operand(0)

    def function(k: Any) -> Any:
        return prng.random_split_impl_base(aval.dtype._impl, prng.random_unwrap(k), len(aval.shape), shape=shape)

    return eqn.expand(function, keys)


@primitive("random_fold_in")
def random_fold_in(eqn: Equation, keys: Value, data: Value) -> Any:
    aval = eqn.operand(0)

    def function(k: Any, m: Any) -> Any:
        return prng.random_fold_in_impl_base(aval.dtype._impl, prng.random_unwrap(k), m, aval.shape)

    return eqn.expand(function, keys, data)


@primitive("random_gamma")
def random_gamma(eqn: Equation, keys: Value, a: Value, *, log_space: bool) -> Any:
    return eqn.expand(lambda k, x: jax_random._gamma_impl(k, x, log_space=log_space, use_vmap=True), keys, a)


@primitive("threefry2x32")
def threefry(eqn: Equation, *operands: Value) -> list[Value]:
    return eqn.expand(lambda *xs: threefry2x32._threefry2x32_lowering(*xs, use_rolled_loops=False), *operands)


HASHES = {
    "philox2x32": philox2x32._philox2x32_lowering,
    "philox4x32": philox4x32._philox4x32_lowering,
    "threefry4x32": threefry4x32._threefry4x32_lowering,
}


@primitive(*HASHES)
def hash_(eqn: Equation, *operands: Value) -> list[Value]:
    return eqn.expand(HASHES[eqn.op], *operands)


@primitive("iota_2x32_shape")
def iota_2x32_shape(eqn: Equation, *, shape: Any) -> list[Value]:
    """The position of every element in row-major order, as two words: the high and the low one."""
    sizes = eqn.sizes(shape)
    position = full(eqn.type_of(eqn.aval()).with_shape(sizes), 0)
    position = convert(position, "uint64")
    stride: Dim = 1
    for axis in reversed(range(len(sizes))):
        along = ops.cast(ops.iota(shape=sizes, axis=axis), dtype="uint64")
        position = ops.add(position, ops.mul(along, dim_value(stride, "uint64")))
        stride = stride * sizes[axis]
    high = convert(ops.shift_right(position, like(32, position)), "uint32")
    low = convert(ops.and_(position, like(2**32 - 1, position)), "uint32")
    return [high, low]


@primitive("rng_bit_generator")
def rng_bit_generator(
    eqn: Equation, key: Value, *, shape: Any, dtype: Any, algorithm: Any, out_sharding: Any
) -> list[Value]:
    """The generators of XLA. A key of four uint32 is two uint64, the lower word first."""
    narrow = type_of(key).dtype == "uint32"
    state = bitcast_convert(reshape(key, (2, 2)), "uint64") if narrow else key
    name = str(getattr(algorithm, "name", algorithm)).removeprefix("RNG_")
    after, found = generate(state, name, list(eqn.sizes(shape)), dtype_name(dtype))
    return [reshape(bitcast_convert(after, "uint32"), (4,)) if narrow else after, found]
