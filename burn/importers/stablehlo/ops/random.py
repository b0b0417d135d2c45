"""Random numbers: rng_bit_generator with the bits of XLA on a CPU, and rng, whose numbers no specification gives."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import convert
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, type_of
from burn.importers.lax.rng import rng_bit_generator as generate
from burn.importers.stablehlo.node import Node, rule

Value = ir.Value


@rule("rng_bit_generator")
def rng_bit_generator(node: Node) -> list[Value]:
    """The state may be uint32 words, two for each of uint64."""
    algorithm = node.word("rng_algorithm")
    type_ = node.result(1)
    dtype = type_.element
    if not isinstance(dtype, str) or dtype not in DTYPES or DTYPES[dtype].bits < 8:
        node.fail(f"has a result of {dtype}, and draws integers of 8 to 64 bits")
    after, bits = generate(node.x(0), algorithm, node.static_shape(1), f"uint{DTYPES[dtype].bits}")
    return [after, ops.bitcast(bits, dtype=dtype)]


@rule("rng")
def rng(node: Node) -> Value:
    """Uniform between a and b, or normal with mean a and deviation b: burn's own generator draws, anew in each run."""
    kind, dtype = node.word("rng_distribution"), node.dtype
    a, b = node.x(0), node.x(1)
    shape = tuple(node.sizes(2))
    draws = convert(a, "float64") if dtype == "float64" else convert(a, "float32")
    key = node.importer.tracer.program.random_key()
    wide = type_of(draws).dtype
    if kind == "NORMAL":
        unit = ops.random_normal(key, shape=shape, dtype=wide)
        return convert(ops.add(ops.mul(unit, convert(b, wide)), draws), dtype)
    if kind != "UNIFORM":
        node.fail(f"has the unknown distribution {kind}")
    unit = ops.random_uniform(key, shape=shape, dtype=wide)
    found = ops.add(ops.mul(unit, convert(ops.sub(convert(b, wide), draws), wide)), draws)
    return convert(ops.floor(found) if DTYPES[dtype].kind in ("int", "uint") else found, dtype)
