"""torch.cond, while_loop, scan and map: their graphs become the regions of `burn.if` and `burn.loop`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, reshape
from burn.dialect.control import If, Loop
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import TensorType, type_of
from burn.importers.core import FAILED, Skipped
from burn.importers.regions import move_regions
from burn.importers.torch.build import Importer, as_output
from burn.importers.torch.node import Node, higher_order


def _results(importer: Importer, graph: torch.fx.GraphModule, operands: Sequence[Any]) -> list[ir.Value]:
    """Builds a graph at the insertion point and returns its results."""
    values = importer.run(graph, operands)
    if any(value is FAILED for value in values):
        raise Skipped
    return [as_output(v) for v in values]


def _flag(node: Node, predicate: Any) -> ir.Value:
    value = convert(predicate, "bool") if isinstance(predicate, ir.Value) else node.scalar(predicate, "bool")
    return reshape(value, ())


@higher_order("cond")
def cond(node: Node, predicate: Any, then: Any, otherwise: Any, operands: Sequence[Any]) -> Any:
    """Both branches give the same types; a size in which they differ is a symbol of torch's that the op defines."""
    if isinstance(predicate, bool):
        return _results(node.importer, then if predicate else otherwise, operands)
    condition = _flag(node, predicate)
    draft = If.create(condition, result_types=[])
    for region, graph in zip(draft.regions, (then, otherwise), strict=True):
        with ir.InsertionPoint(region.blocks.append()):
            ops.yield_(_results(node.importer, graph, operands))
    names: list[str] = []
    types = [_result_type(node, fake, names) for fake in node.meta]
    final = If.create(condition, result_types=types, symbols=tuple(names))
    move_regions(draft, final)
    final.opview.check()
    return list(final.results)


def _result_type(node: Node, fake: torch.Tensor, names: list[str]) -> TensorType:
    sizes = node.importer.sizes
    shape: list[Dim] = []
    for size in fake.shape:
        if not sizes.has(size):
            new = node.new_size("cond_size")
            names.append(str(new))
            sizes.bind(size, new)
        shape.append(sizes.dim(size))
    return TensorType(node.importer.tensor_dtype(fake), tuple(shape))


@higher_order("while_loop")
def while_loop(node: Node, condition: Any, body: Any, carried: Sequence[Any], additional: Sequence[Any]) -> Any:
    """Carried values keep their types, as torch requires."""
    if not all(isinstance(v, ir.Value) for v in carried):
        node.fail("a loop carries a number; make it a tensor without axes")
    importer = node.importer
    (start,) = _results(importer, condition, [*carried, *additional])
    types = [type_of(v) for v in carried]
    draft = Loop.create(None, _flag(node, start), list(carried), result_types=types)
    arguments = [TensorType("int64", ()), TensorType("bool", ()), *types]
    block = draft.regions[0].blocks.append(*(t.to_mlir() for t in arguments))
    with ir.InsertionPoint(block), importer.program.iterating(block.arguments[0]):
        given = list(block.arguments)[2:]
        new = _results(importer, body, [*given, *additional])
        (going,) = _results(importer, condition, [*new, *additional])
        ops.yield_([_flag(node, going), *new])
    draft.opview.check()
    return list(draft.results)


@higher_order("scan")
def scan(node: Node, combine: Any, init: Sequence[Any], rows: Sequence[Any], additional: Sequence[Any]) -> Any:
    """Axes other than the first, and reversed ones, are moved and flipped outside of it."""
    return _over_slices(node, combine, list(init), rows, additional)


@higher_order("map_impl")
def map_(node: Node, graph: Any, rows: Sequence[Any], additional: Sequence[Any]) -> Any:
    return _over_slices(node, graph, [], rows, additional)


def _over_slices(
    node: Node, graph: Any, carried: list[ir.Value], rows: Sequence[Any], additional: Sequence[Any]
) -> list[ir.Value]:
    """A loop over slices of tensors along their first axes. The graph maps the carried values and the slices to the next carried
    values, and to slices that are stacked."""
    importer = node.importer
    trips = dim_value(type_of(rows[0]).shape[0])
    types = [importer.tensor_type(fake) for fake in node.meta]
    loop = Loop.create(trips, None, carried, result_types=types, scans=len(types) - len(carried))
    arguments = [TensorType("int64", ()), TensorType("bool", ()), *map(type_of, carried)]
    block = loop.regions[0].blocks.append(*(t.to_mlir() for t in arguments))
    iteration, going, *given = block.arguments
    with ir.InsertionPoint(block), importer.program.iterating(iteration):
        slices = [ops.gather(row, iteration, axis=0) for row in rows]
        ops.yield_([going, *_results(importer, graph, [*given, *slices, *additional])])
    loop.opview.check()
    return list(loop.results)
