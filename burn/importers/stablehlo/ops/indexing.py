"""Slices at positions that the data give: gather, scatter, dynamic_slice and the like."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.dims import Dim, Expr, decide
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.lax import gather as lax
from burn.importers.lax import slicing
from burn.importers.lax.gather import Addressing
from burn.importers.stablehlo.node import Node, RowWrite, rule
from burn.importers.stablehlo.regions import combination

Value = ir.Value


@rule("dynamic_slice")
def dynamic_slice(node: Node) -> Value:
    return slicing.dynamic_slice(node.x(0), node.xs[1:], node.ints("slice_sizes"))


@rule("dynamic_update_slice")
def dynamic_update_slice(node: Node) -> Value:
    x, update = node.x(0), node.x(1)
    before = len(list(x.uses))
    result = slicing.dynamic_update_slice(x, update, node.xs[2:])
    written = _row(node, x, update)
    if written is not None and isinstance(result, ir.Value):
        axis, index = written
        node.importer.rows[result] = RowWrite(x, axis, index, update, before == 0, len(list(x.uses)))
    return result


def _row(node: Node, x: Value, update: Value) -> tuple[int, Dim] | None:
    """(axis, index) if the update replaces one index of one axis, which depends on an iteration, and all of the others."""
    own, given = type_of(x).shape, type_of(update).shape
    found: list[tuple[int, Dim]] = []
    for axis, start in enumerate(node.xs[2:]):
        known = node.importer.in_loop(start)
        element = known[()] if known is not None and not known.shape else None
        if isinstance(element, Expr) and given[axis] == 1:
            found.append((axis, element))
        elif decide(given[axis], "==", own[axis]) is not True:
            return None
    return found[0] if len(found) == 1 else None


def _list(fields: dict[str, object], name: str) -> tuple[int, ...]:
    value = fields.get(name, ())
    return value if isinstance(value, tuple) else ()


def _gathered(node: Node, sizes: tuple[Dim, ...]) -> Value:
    node.no_effect("indices_are_sorted")
    fields = node.fields("dimension_numbers")
    how = Addressing(
        offset=_list(fields, "offset_dims"),
        collapsed=_list(fields, "collapsed_slice_dims"),
        addressed=_list(fields, "start_index_map"),
        vector=int(fields.get("index_vector_dim", 0)),
        operand_batch=_list(fields, "operand_batching_dims"),
        index_batch=_list(fields, "start_indices_batching_dims"),
    )
    return lax.gather(node.x(0), node.x(1), how, sizes)


@rule("gather")
def gather(node: Node) -> Value:
    return _gathered(node, node.ints("slice_sizes"))


@rule("dynamic_gather")
def dynamic_gather(node: Node) -> Value:
    return _gathered(node, tuple(node.sizes(2)))


@rule("scatter")
def scatter(node: Node) -> list[Value]:
    """An update that is not inside is dropped element by element, as the specification says. (XLA drops the whole slice.)"""
    node.no_effect("indices_are_sorted", "unique_indices")
    fields = node.fields("scatter_dimension_numbers")
    how = Addressing(
        offset=_list(fields, "update_window_dims"),
        collapsed=_list(fields, "inserted_window_dims"),
        addressed=_list(fields, "scatter_dims_to_operand_dims"),
        vector=int(fields.get("index_vector_dim", 0)),
        operand_batch=_list(fields, "input_batching_dims"),
        index_batch=_list(fields, "scatter_indices_batching_dims"),
    )
    count = (len(node.operands) - 1) // 2
    xs, indices, updates = node.xs[:count], node.x(count), node.xs[count + 1 :]
    kinds = combination(node, count)
    if kinds is None:
        if count != 1:
            node.fail("a scatter of several operands with a region that combines them is not supported")
        block = node.block()
        with node.importer.unlifted():
            return [lax.scatter(xs[0], indices, updates[0], how, lambda a, b: node.one(block, a, b))]
    return [lax.scatter(x, indices, u, how, kind) for x, u, kind in zip(xs, updates, kinds, strict=True)]


@rule("torch_index_select")
def torch_index_select(node: Node) -> Value:
    """The slices of an axis at indices, for each batch. Indices are in range."""
    x, indices = node.x(0), node.x(1)
    axis, batch = node.integer("dim"), node.integer("batch_dims")
    if not batch:
        return ops.gather(x, indices, axis=axis)
    rank, own = type_of(x).rank, type_of(indices).rank
    free = own - batch
    leading = tuple(range(batch))
    kept = [a for a in range(rank) if a != axis]
    offset = [a if a < axis else a + free - 1 for a in kept if a not in leading]
    how = Addressing(tuple(offset), (axis,), (axis,), own, leading, leading)
    sizes = tuple(1 if a == axis or a in leading else d for a, d in enumerate(type_of(x).shape))
    return lax.gather(x, indices, how, sizes)
