"""Random numbers. A node with a seed gives the numbers of that seed at every run; one without draws anew, from the
program's random state (`Executable.seed`, `burn.manual_seed`)."""

from __future__ import annotations

import struct
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, number, reshape, wide
from burn.dialect.mlir import ir
from burn.dialect.types import FLOATS, type_of
from burn.importers.onnx.node import Node, onnx_op


def key(node: Node) -> ir.Value:
    """uint32[2]: that of the node's seed, a float taken by its bits, or a new one at each run."""
    seed = node.float("seed", None)
    return node.importer.program.random_key(None if seed is None else struct.unpack("<I", struct.pack("<f", seed))[0])


def uniform(node: Node) -> dict[str, Any]:
    return {"low": node.float("low", 0.0), "high": node.float("high", 1.0)}


def normal(node: Node) -> dict[str, Any]:
    return {"mean": node.float("mean", 0.0), "deviation": node.float("scale", 1.0)}


DISTRIBUTIONS = {
    "Uniform": (lambda *operands, **options: ops.random_uniform(*operands, **options), uniform),
    "Normal": (lambda *operands, **options: ops.random_normal(*operands, **options), normal),
}


def _enter(name: str) -> None:
    draw, options = DISTRIBUTIONS[name]

    @onnx_op(f"Random{name}")
    def of_shape(node: Node) -> ir.Value:
        return draw(key(node), shape=node.ints("shape"), dtype=node.dtype("dtype", "float32"), **options(node))

    @onnx_op(f"Random{name}Like")
    def like(node: Node) -> ir.Value:
        type_ = node.type_only(0)
        dtype = node.dtype("dtype", type_.dtype if type_.dtype in FLOATS else "float32")
        return draw(key(node), shape=type_.shape, dtype=dtype, **options(node))


for _name in DISTRIBUTIONS:
    _enter(_name)


@onnx_op("Bernoulli")
def bernoulli(node: Node) -> ir.Value:
    """1 with the probability that the operand's element gives, else 0."""
    x, type_ = node.required(0), node.type(0)
    working = wide(type_.dtype)
    drawn = ops.random_uniform(key(node), shape=type_.shape, dtype=working)
    return ops.cast(ops.lt(drawn, convert(x, working)), dtype=node.dtype("dtype", type_.dtype))


@onnx_op("Multinomial")
def multinomial(node: Node) -> ir.Value:
    """x [batch, classes], logarithms of unnormalised probabilities -> [batch, sample_size] classes.

    A uniform number falls into the class whose share of the cumulative probability it hits."""
    x = convert(node.required(0), wide(node.type(0).dtype))
    if type_of(x).rank != 2:
        node.fail(f"takes [batch, classes], not {type_of(x)}")
    (batch, classes), dtype = type_of(x).shape, type_of(x).dtype
    count = node.int("sample_size", 1)
    shares = ops.exp(ops.sub(x, ops.reduce(x, kind="max", axes=(1,), keepdims=True)))
    running = ops.cumulative(shares, kind="sum", axis=1)
    whole = ops.reduce(shares, kind="sum", axes=(1,), keepdims=True)
    drawn = ops.mul(ops.random_uniform(key(node), shape=(batch, count), dtype=dtype), whole)
    passed = ops.le(reshape(running, (batch, 1, classes)), reshape(drawn, (batch, count, 1)))
    # rounding may leave the last share a little short of the whole
    index = ops.reduce(ops.cast(passed, dtype="int64"), kind="sum", axes=(2,))
    last = ops.sub(ops.dim_values(dims=(classes,), scalar=True), number(1, "int64"))
    return convert(ops.min(index, last), node.dtype("dtype", "int32"))
