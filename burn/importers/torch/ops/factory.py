"""Tensors out of nothing: constants, ranges, random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number, number_like, part, reshape, times
from burn.dialect.dims import Expr
from burn.dialect.dropout import share
from burn.dialect.mlir import ir
from burn.dialect.types import FLOATS, INTEGERS, PARTS, TensorType, type_of
from burn.importers.torch.node import Node, aten


def filled(node: Node, value: Any) -> ir.Value:
    """The result's shape of one number."""
    type_ = node.result_type()
    if isinstance(value, (Expr, ir.Value, complex)):
        return broadcast_to(node.scalar(value), type_.shape)
    bits = int(value) if type_.dtype in INTEGERS else None
    return ops.full(shape=type_.shape, dtype=type_.dtype, value=float(value), bits=bits)


@aten("full.default", "new_full.default", "full_like.default", "fill.Scalar", "fill.Tensor")
def full(node: Node, first: Any, *rest: Any, **keywords: Any) -> ir.Value:
    return filled(node, rest[-1])


@aten("scalar_tensor.default", "empty_value.default")
def scalar_tensor(node: Node, value: Any, **keywords: Any) -> ir.Value:
    return filled(node, value)


@aten(
    *("zeros.default", "new_zeros.default", "zeros_like.default", "zero.default", "_efficientzerotensor.default"),
    # The contents of an empty tensor are undefined; zeros are valid and reproducible.
    *("empty.memory_format", "new_empty.default", "empty_like.default", "empty_strided.default"),
    *("new_empty_strided.default", "empty_permuted.default"),
)
def zeros(node: Node, *rest: Any, **keywords: Any) -> ir.Value:
    return filled(node, 0)


@aten("ones.default", "new_ones.default", "ones_like.default")
def ones(node: Node, *rest: Any, **keywords: Any) -> ir.Value:
    return filled(node, 1)


@aten("eye.default", "eye.m")
def eye(node: Node, *rest: Any, **keywords: Any) -> ir.Value:
    rows, columns = node.shape
    return convert(ops.eq(ops.iota(shape=(rows, 1), axis=0), ops.iota(shape=(1, columns), axis=1)), node.dtype)


@aten("arange.default", "arange.start", "arange.start_step")
def arange(node: Node, first: Any, end: Any = None, step: Any = 1, **keywords: Any) -> ir.Value:
    """torch gives the length: (end - start) / step, rounded up. For integers the start and the step are whole."""
    start = 0 if node.op == "aten.arange.default" else first
    dtype = node.dtype
    if dtype in INTEGERS:
        start, step = (int(v) if isinstance(v, float) else v for v in (start, step))
    integral = not any(isinstance(v, (float, ir.Value)) for v in (start, step))
    kind = "int64" if integral else "float64"
    value = convert(ops.iota(shape=node.shape, axis=0), kind)
    if step != 1:
        value = ops.mul(value, node.scalar(step, kind))
    if start != 0:
        value = ops.add(value, node.scalar(start, kind))
    return convert(value, dtype)


@aten("linspace.default")
def linspace(node: Node, start: Any, end: Any, steps: int, **keywords: Any) -> ir.Value:
    """From both ends towards the middle, so that the last one is exact."""
    if steps == 1:
        return filled(node, start)
    first, last = node.scalar(start, "float64"), node.scalar(end, "float64")
    index = ops.iota(shape=(steps,), axis=0, dtype="float64")
    step = ops.div(ops.sub(last, first), number(steps - 1, "float64"))
    low = ops.add(first, ops.mul(step, index))
    high = ops.sub(last, ops.mul(step, ops.sub(number(steps - 1, "float64"), index)))
    return convert(ops.select(ops.lt(index, number(steps // 2, "float64")), low, high), node.dtype)


# ---- random numbers -----------------------------------------------------------------------------------------------------
def _own_generator(node: Node, keywords: dict[str, Any]) -> None:
    """Raises ModelError for a generator that the program would have to keep the state of."""
    if keywords.get("generator") is not None:
        node.fail("draws from a generator of its own", "leave `generator` out: torch.manual_seed repeats what is drawn")


@aten("rand.default", "rand.generator", "rand_like.default", "rand_like.generator")
def rand(node: Node, *rest: Any, **keywords: Any) -> ir.Value:
    return _floats(node, ops.random_uniform, keywords)


@aten("randn.default", "randn.generator", "randn_like.default", "randn_like.generator")
def randn(node: Node, *rest: Any, **keywords: Any) -> ir.Value:
    return _floats(node, ops.random_normal, keywords)


def _floats(node: Node, function: Any, keywords: dict[str, Any]) -> ir.Value:
    _own_generator(node, keywords)
    type_ = node.result_type()
    if type_.dtype in PARTS:
        parts = [
            function(node.importer.random_key(), shape=type_.shape, dtype=PARTS[type_.dtype])
            for _ in ("real", "imaginary")
        ]
        if function is ops.random_normal:  # the variance of a complex number is 1
            parts = [times(part, math.sqrt(0.5)) for part in parts]
        return ops.complex(*parts)
    if type_.dtype not in FLOATS:
        node.fail(f"draws floats, not {type_.dtype}")
    return function(node.importer.random_key(), shape=type_.shape, dtype=type_.dtype)


@aten("uniform.default")
def uniform(node: Node, x: ir.Value, low: float = 0.0, high: float = 1.0, **keywords: Any) -> ir.Value:
    _own_generator(node, keywords)
    return _parts(
        node, x, lambda key, type_: ops.random_uniform(key, shape=type_.shape, dtype=type_.dtype, low=low, high=high)
    )


def _parts(node: Node, x: ir.Value, draw: Callable[[ir.Value, TensorType], ir.Value]) -> ir.Value:
    """Random numbers of x's type. The parts of complex ones are drawn one by one."""
    type_ = type_of(x)
    if type_.dtype not in PARTS:
        return draw(node.importer.random_key(), type_)
    parts = [draw(node.importer.random_key(), type_.with_dtype(PARTS[type_.dtype])) for _ in ("real", "imaginary")]
    return ops.complex(*parts)


@aten("normal_functional.default")
def normal(node: Node, x: ir.Value, mean: float = 0.0, std: float = 1.0, **keywords: Any) -> ir.Value:
    _own_generator(node, keywords)
    if type_of(x).dtype not in PARTS:
        return _parts(
            node, x, lambda key, t: ops.random_normal(key, shape=t.shape, dtype=t.dtype, mean=mean, deviation=std)
        )
    spread = std * math.sqrt(0.5)  # the variance of a complex number is that of both parts
    drawn = _parts(
        node, x, lambda key, t: ops.random_normal(key, shape=t.shape, dtype=t.dtype, mean=0.0, deviation=spread)
    )
    return ops.add(drawn, number_like(mean, drawn))


@aten("bernoulli.default", "bernoulli.p")
def bernoulli(node: Node, x: ir.Value, p: float | None = None, **keywords: Any) -> ir.Value:
    """1 with probability p, or with each element's own."""
    _own_generator(node, keywords)
    draws = ops.random_uniform(node.importer.random_key(), shape=type_of(x).shape, dtype="float32")
    chance = convert(x, "float32") if p is None else number(p, "float32")
    return convert(ops.lt(draws, chance), node.dtype)


@aten("native_dropout.default")
def native_dropout(node: Node, x: ir.Value, p: float, train: bool | None) -> list[ir.Value]:
    """In training an element is kept with probability 1 - p and scaled up."""
    if train is False or p == 0:
        return [x, ops.full(shape=type_of(x).shape, dtype="bool", value=1.0)]
    return dropped(node, x, p)


def dropped(node: Node, x: ir.Value, p: float) -> list[ir.Value]:
    """x with elements zeroed with probability p, the others scaled up; which were kept."""
    type_ = type_of(x)
    kept = ops.random_kept(node.importer.random_key(), shape=type_.shape, rate=float(p))
    return [ops.select(kept, ops.mul(x, number_like(share(p), x)), number_like(0, x)), kept]


@aten("dropout.default")
def dropout(node: Node, x: ir.Value, p: float, train: bool) -> ir.Value:
    return native_dropout(node, x, p, train)[0]


@aten("randint.default", "randint.generator", "randint.low", "randint.low_generator")
def randint(node: Node, *rest: Any, **keywords: Any) -> ir.Value:
    low, high = (rest[0], rest[1]) if "low" in node.op else (0, rest[0])
    return _integers(node, low, high, keywords)


@aten("randint_like.default", "randint_like.low_dtype", "randint_like.generator", "randint_like.low_generator_dtype")
def randint_like(node: Node, x: ir.Value, *rest: Any, **keywords: Any) -> ir.Value:
    low, high = (rest[0], rest[1]) if "low" in node.op else (0, rest[0])
    return _integers(node, low, high, keywords)


def _integers(node: Node, low: Any, high: Any, keywords: dict[str, Any]) -> ir.Value:
    """Integers in [low, high), which may be sizes."""
    _own_generator(node, keywords)
    draws = ops.random_uniform(node.importer.random_key(), shape=node.shape, dtype="float64")
    least = node.scalar(low, "float64")
    width = ops.sub(node.scalar(high, "float64"), least)
    return convert(ops.add(ops.floor(ops.mul(draws, width)), least), node.dtype)


@aten("randperm.default", "randperm.generator")
def randperm(node: Node, n: Any, **keywords: Any) -> ir.Value:
    """The numbers below n in the order of as many random ones."""
    _own_generator(node, keywords)
    draws = ops.random_uniform(node.importer.random_key(), shape=(n,), dtype="float64")
    return node.as_result(ops.sort(draws, axis=0, descending=False)[1])


@aten("multinomial.default")
def multinomial(node: Node, x: ir.Value, count: Any, replacement: bool = False, **keywords: Any) -> ir.Value:
    """Indices into a row, drawn with its numbers as weights: x [.., n] -> [.., count].

    With replacement a draw from [0, total) is looked up among the cumulative sums. Without, it returns the indices of the
    smallest of n waiting times, each exponential with its number as rate (Efraimidis and Spirakis, 2006)."""
    _own_generator(node, keywords)
    type_ = type_of(x)
    weights, last = convert(x, "float64"), type_.rank - 1
    key = node.importer.random_key()
    if not replacement:
        draws = ops.random_uniform(key, shape=type_.shape, dtype="float64")
        waits = ops.div(ops.neg(ops.log1p(ops.neg(draws))), weights)
        return part(ops.sort(waits, axis=last, descending=False)[1], last, 0, count)
    lead = type_.shape[:last]
    sums = ops.cumulative(weights, kind="sum", axis=last)
    total = part(sums, last, type_.shape[last] - 1, 1)
    draws = ops.mul(ops.random_uniform(key, shape=(*lead, count), dtype="float64"), total)
    passed = ops.le(reshape(sums, (*lead, 1, type_.shape[last])), reshape(draws, (*lead, count, 1)))
    return ops.reduce(convert(passed, "int64"), kind="sum", axes=(last + 1,))


@aten("rrelu_with_noise_functional.default")
def rrelu(
    node: Node, x: ir.Value, noise: ir.Value, low: float, high: float, training: bool = False, generator: Any = None
) -> list[ir.Value]:
    """Negative numbers times a slope: the middle of [low, high], in training a random one of it."""
    slope = number_like((low + high) / 2, x)
    if training:
        type_ = type_of(x)
        slope = ops.random_uniform(
            node.importer.random_key(), shape=type_.shape, dtype=type_.dtype, low=float(low), high=float(high)
        )
    negative = ops.le(x, number_like(0, x))
    kept = ops.select(negative, slope, number_like(1, x))
    return [ops.mul(x, kept), kept if training else noise]
