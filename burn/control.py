"""Control flow on traced values: `cond` for `if`, `loop` for `while` and `for`, `read_dim` for sizes from data.

The functions given are called once, while tracing; what they use of the tensors around them they see as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.control import If, Loop
from burn.dialect.dims import Dim, Expr, Symbol
from burn.dialect.mlir import ir
from burn.dialect.types import TensorType
from burn.errors import TypeMismatch
from burn.importers.trace import active, current
from burn.signature import spec
from burn.tensor import Tensor, lift

Types = Sequence[TensorType | str]


def read_dim(x: Tensor, name: str, *, position: int = 0, minimum: int = 0) -> Expr:
    """The size `name`, read from an integer tensor when the program runs: its element `position` in memory order, which
    must be at least `minimum`."""
    size = current().new_size(name)
    ops.read_dim(x.value, symbol=str(size), position=position, minimum=minimum)
    return size


def cond(
    condition: Tensor,
    then: Callable[[], Any],
    otherwise: Callable[[], Any],
    *,
    results: Types | None = None,
    sizes: Sequence[str] = (),
) -> Any:
    """What `then()` or `otherwise()` returns, whichever `condition` (a bool scalar) chooses when the program runs.

    Both return the same number of tensors, of the same element types and ranks. A size that differs between them
    becomes a new symbol, unless `results` gives the types ("float32[n, 3]") and `sizes` the new symbols in them."""
    if not condition.is_traced and active() is None:
        return then() if condition else otherwise()
    thens, elses = (_region(function) for function in (then, otherwise))
    if len(thens.types) != len(elses.types):
        text = f"then gives {len(thens.types)} tensors, otherwise {len(elses.types)}"
        raise TypeMismatch("the branches of burn.cond differ", [text])
    if results is None:
        types, sizes = _merged(thens.types, elses.types)
    else:
        types = [spec(t) for t in results]
    _define(sizes)
    operation = If.create(condition.value, result_types=types, symbols=tuple(sizes))
    thens.move_to(operation.regions[0])
    elses.move_to(operation.regions[1])
    operation.opview.check()
    values = [Tensor(r) for r in operation.results]
    return values[0] if thens.single and len(values) == 1 else tuple(values)


def loop(
    body: Callable[..., Any],
    carried: Sequence[Any] = (),
    *,
    trips: Tensor | int | Dim | None = None,
    condition: Tensor | bool | None = None,
    scans: int = 0,
    carried_types: Types | None = None,
    results: Types | None = None,
    sizes: Sequence[str] = (),
) -> tuple[Tensor, ...]:
    """Repeats `body(iteration, condition, *carried) -> (condition, *carried, *slices)`.

    It ends after `trips` iterations or when the condition it returned is false; the last `scans` tensors that body
    returns are stacked, one slice an iteration. Returns the final carried tensors and the stacks. A carried tensor
    keeps its shape, unless `carried_types` (in the body) and `results` (in the end) give it sizes that are listed in
    `sizes`."""
    carried = [lift(value) for value in carried]
    count = None if trips is None else lift(trips, "int64")
    start = None if condition is None else lift(condition, "bool")
    if count is None and start is None:
        raise TypeMismatch("burn.loop does not end", ["give the number of trips, a condition, or both"])
    inner = [c.type for c in carried] if carried_types is None else [spec(t) for t in carried_types]
    new = list(sizes)
    region = _region(body, [TensorType("int64", ()), TensorType("bool", ()), *inner])
    given = region.types
    if len(given) != 1 + len(carried) + scans:
        raise TypeMismatch(
            "the body of burn.loop returns the wrong number of tensors",
            [f"{len(given)}, not the condition, {len(carried)} carried and {scans} slices"],
        )
    if results is None:
        length: Dim = trips if isinstance(trips, (int, Expr)) and start is None else 0
        if scans and length == 0:
            new.append(current().fresh("trips"))
            length = Expr.of(Symbol(new[-1]))
        stacked = [t.with_shape((length, *t.shape)) for t in given[1 + len(carried) :]]
        types = [*inner, *stacked]
    else:
        types = [spec(t) for t in results]
    _define(new)
    values = (None if count is None else count.value, None if start is None else start.value)
    operation = Loop.create(*values, [c.value for c in carried], result_types=types, scans=scans, symbols=tuple(new))
    region.move_to(operation.regions[0])
    operation.opview.check()
    return tuple(Tensor(r) for r in operation.results)


class _region:
    """A function's ops, built where a region stands, to be moved into its op when the result types are known."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[TensorType] = ()) -> None:
        # The region's op does not exist yet: what types it has is known only when its regions are built.
        self._holder = ir.Module.create()
        block = self._holder.operation.regions[0].blocks.append(*[t.to_mlir() for t in arguments])
        self._block = block
        with ir.InsertionPoint(block):
            result = function(*map(Tensor, block.arguments))
            self.single = not isinstance(result, (tuple, list))
            values = [lift(v, "bool" if isinstance(v, bool) else None) for v in ([result] if self.single else result)]
            ops.yield_([v.value for v in values])
        self.types = [v.type for v in values]

    def move_to(self, region: ir.Region) -> None:
        self._block.append_to(region)


def _merged(first: Sequence[TensorType], second: Sequence[TensorType]) -> tuple[list[TensorType], list[str]]:
    """Types that both branches' results fit, and the new symbols in them."""
    new: list[str] = []
    types = []
    for a, b in zip(first, second, strict=True):
        if a.dtype != b.dtype or a.rank != b.rank:
            raise TypeMismatch("the branches of burn.cond differ", [f"then gives {a}, otherwise {b}"])
        shape: list[Dim] = []
        for x, y in zip(a.shape, b.shape, strict=True):
            if x != y:
                name = current().fresh(f"branch_{len(new)}" if new else "branch")
                new.append(name)
                x = Expr.of(Symbol(name))
            shape.append(x)
        types.append(a.with_shape(tuple(shape)))
    return types, new


def _define(sizes: Sequence[str]) -> None:
    for name in sizes:
        current().new_size(name)
