"""Views and arrangements, with fixed sizes and with sizes that the program computes (`dynamic_*`)."""

from __future__ import annotations

from burn.dialect.compose import dim_value, reshape, transpose
from burn.dialect.dims import Dim, Expr, exact_div, product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.lax import shaping
from burn.importers.stablehlo.node import Node, rule

Value = ir.Value


@rule("broadcast_in_dim")
def broadcast_in_dim(node: Node) -> Value:
    return shaping.broadcast_in_dim(node.x(0), node.static_shape(), node.ints("broadcast_dimensions"))


@rule("broadcast")
def broadcast(node: Node) -> Value:
    """Repeated over new leading axes."""
    x, sizes = node.x(0), node.ints("broadcast_sizes")
    rank = len(sizes) + type_of(x).rank
    return shaping.broadcast_in_dim(x, (*sizes, *type_of(x).shape), range(len(sizes), rank))


@rule("reshape")
def reshape_(node: Node) -> Value:
    """The declared shape; one size that it leaves open follows from the others."""
    x = node.x(0)
    return reshape(x, _completed(node, node.result().shape, type_of(x).elements))


def _completed(node: Node, shape: tuple[int | None, ...], elements: Dim) -> tuple[Dim, ...]:
    missing = [axis for axis, size in enumerate(shape) if size is None]
    if not missing:
        return tuple(size or 0 for size in shape)
    rest = product([size for size in shape if size is not None])
    found = exact_div(elements, rest) if rest else None
    if len(missing) != 1 or found is None:
        node.fail("has a result of unknown sizes; stablehlo.dynamic_reshape takes them as an operand")
    return tuple(found if size is None else size for size in shape)


@rule("transpose")
def transpose_(node: Node) -> Value:
    return transpose(node.x(0), node.ints("permutation"))


@rule("reverse")
def reverse(node: Node) -> Value:
    return shaping.rev(node.x(0), node.ints("dimensions"))


@rule("slice")
def slice_(node: Node) -> Value:
    starts, limits, strides = (node.ints(k) for k in ("start_indices", "limit_indices", "strides"))
    return shaping.slice_(node.x(0), starts, limits, strides)


@rule("concatenate")
def concatenate(node: Node) -> Value:
    return shaping.concatenate(node.xs, node.integer("dimension"))


@rule("pad")
def pad(node: Node) -> Value:
    low, high = (node.ints(f"edge_padding_{side}") for side in ("low", "high"))
    return shaping.pad(node.x(0), node.x(1), low, high, node.ints("interior_padding"))


@rule("iota")
def iota(node: Node) -> Value:
    return shaping.iota(node.static_shape(), node.integer("iota_dimension"), node.dtype)


# ---- sizes that the program computes ---------------------------------------------------------------------------------------
@rule("get_dimension_size")
def get_dimension_size(node: Node) -> Value:
    return dim_value(node.shape(0)[node.integer("dimension")], node.dtype)


@rule("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(node: Node) -> Value:
    return shaping.broadcast_in_dim(node.x(0), node.sizes(1), node.ints("broadcast_dimensions"))


@rule("dynamic_reshape")
def dynamic_reshape(node: Node) -> Value:
    return reshape(node.x(0), tuple(node.sizes(1)))


@rule("dynamic_iota")
def dynamic_iota(node: Node) -> Value:
    return shaping.iota(node.sizes(0), node.integer("iota_dimension"), node.dtype)


@rule("dynamic_pad")
def dynamic_pad(node: Node) -> Value:
    """Padding that is read at run time may be negative, like static padding."""
    low, high, interior = (node.sizes(i, minimum=None) for i in (2, 3, 4))
    if any(isinstance(n, Expr) for n in interior):
        node.fail("padding between elements must be known when the program is imported")
    return shaping.pad(node.x(0), node.x(1), low, high, [int(n) for n in interior if not isinstance(n, Expr)])


@rule("real_dynamic_slice")
def real_dynamic_slice(node: Node) -> Value:
    starts, limits, strides = (node.sizes(i) for i in (1, 2, 3))
    if any(isinstance(n, Expr) for n in strides):
        node.fail("strides must be known when the program is imported")
    return shaping.slice_(node.x(0), starts, limits, [int(n) for n in strides if not isinstance(n, Expr)])


@rule("optimization_barrier")
def optimization_barrier(node: Node) -> list[Value]:
    """Keeps a compiler from moving ops across it; the values pass."""
    return list(node.operands)
