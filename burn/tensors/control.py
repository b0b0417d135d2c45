"""Control flow on values: `cond` for `if`, `while_loop`, `fori_loop` and `scan` for loops, `read_dim` for data-dependent sizes,
`check_size` for conditions on sizes.

    total = burn.scan(lambda carry, x: (carry + x, carry), 0.0, xs)

A traced function calls the given functions once, while tracing; they can use tensors from outside. All loops are
built on `loop`. Outside of traced functions, each iteration is computed before the next one; its program is compiled once,
because its structure stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import check_size as check
from burn.dialect.compose import disconnect
from burn.dialect.control import If, Loop, counted, escapes, region_symbols
from burn.dialect.dims import RELATIONS, Dim, Expr, Symbol, decide, dim_max, plain
from burn.dialect.mlir import ir
from burn.dialect.spec import spec
from burn.dialect.types import DTYPES, TensorType
from burn.errors import BurnError, OutOfRange, TypeMismatch
from burn.evaluation import evaluate
from burn.tensors import Size, Tensor, constant, lift
from burn.tensors.concatenation import concat
from burn.tensors.creation import zeros
from burn.tensors.gradients import registered
from burn.tensors.sizes import shown
from burn.tensors.tracer import active, current
from burn.tensors.trees import Fixed, Leaf, Structure, flatten, is_leaf, paths, unflatten

Types = Sequence[TensorType | str]


def read_dim(x: Tensor, name: str, *, position: int = 0, minimum: int = 0) -> Size:
    """The size `name`, read from an integer tensor when the program runs: its element `position` in memory order, which
    must be at least `minimum`. Outside of traced functions the element as an int. Raises OutOfRange for a smaller one."""
    x = lift(x)
    if active() is None:
        return _read_now(x, name, position, minimum)
    size = current().new_size(name)
    ops.read_dim(x.value, symbol=str(size), position=position, minimum=minimum)
    return shown(size)


def _read_now(x: Tensor, name: str, position: int, minimum: int) -> int:
    if DTYPES[x.dtype].kind not in ("int", "uint"):
        raise TypeMismatch("a size is read from integers", [f"not from {x.type}"])
    elements = x.numpy().reshape(-1)
    if not 0 <= position < elements.size:
        raise OutOfRange(f"there is no element {position}", [f"{x.type} has {elements.size}"])
    size = int(elements[position])
    if size < minimum:
        raise OutOfRange(f"the size '{name}' is {size}", [f"must be at least {minimum}"])
    return size


def check_size(size: Dim, relation: str, bound: Dim, says: str = "") -> None:
    """Checks a size in every run: `burn.check_size(x.shape[0], "<=", 16)`. relation: "==", "!=", "<=", "<", ">="
    or ">". says: the reason, for the error's text. Raises TypeMismatch at once if the condition never holds."""
    if relation not in RELATIONS:
        raise TypeMismatch(f"there is no relation '{relation}'", [f"there are {', '.join(RELATIONS)}"])
    check(size, relation, bound, says)


def cond(
    condition: Tensor | bool,
    then: Callable[..., Any],
    otherwise: Callable[..., Any],
    *operands: Any,
    results: Types | None = None,
    sizes: Sequence[str] = (),
    partial: bool = False,
) -> Any:
    """`then(*operands)` if `condition` (a bool scalar) is true when the program runs, else `otherwise(*operands)`.

    Both return a tensor, a number, or a container of them: one structure, with the same element types and ranks. A size
    that differs between them becomes a new symbol, unless `results` gives the types of all tensors ("float32[n, 3]") and
    `sizes` the new symbols in them. Numbers and arrays among the operands reach the functions as tensors. partial: a
    branch that burn refuses for the sizes at hand ends a run only if the run takes it; the other branch must be possible.
    Raises TypeMismatch."""
    given, given_structure = _leaves(operands)
    operands = unflatten(given_structure, given)
    flag = _bool(condition)
    if active() is None:
        leaves, structure = flatten((then if flag else otherwise)(*operands))
        return unflatten(structure, [leaf._present() if isinstance(leaf, Tensor) else leaf for leaf in leaves])
    structures: list[Any] = [None, None]

    def branch(index: int, function: Callable[..., Any]) -> _region:
        def values() -> list[Tensor]:
            leaves, structures[index] = _leaves(function(*operands))
            return leaves

        return _region(values)

    regions: list[_region | None] = [None, None]
    refusals: list[BurnError] = []
    for index, function in enumerate((then, otherwise)):
        try:
            regions[index] = branch(index, function)
        except BurnError as error:
            refusals.append(error)
            if not partial or len(refusals) == 2:
                raise refusals[0] from None
    for index, region in enumerate(regions):
        other = regions[1 - index]
        if region is None and other is not None:
            types = other.types if results is None else [spec(t) for t in results]
            regions[index] = _refusing(flag, index, refusals[0], types, {*sizes, *other.symbols()})
            structures[index] = structures[1 - index]
    thens, elses = regions
    assert thens is not None and elses is not None
    first, second = structures
    if first != second:
        thens.drop()
        elses.drop()
        text = f"then gives {_written(first)}, otherwise {_written(second)}"
        raise TypeMismatch("the branches of burn.cond return different structures", [text])
    if results is None:
        try:
            types, sizes = _merged(thens.types, elses.types, paths(first))
        except TypeMismatch:
            thens.drop()
            elses.drop()
            raise
    else:
        types = [spec(t) for t in results]
    _define(sizes)
    operation = If.create(flag.value, result_types=types, symbols=tuple(sizes))
    thens.move_to(operation.regions[0])
    elses.move_to(operation.regions[1])
    operation.opview.check()
    return unflatten(first, [Tensor(r) for r in operation.results])


def loop(
    body: Callable[..., Any],
    carried: Sequence[Any] = (),
    *,
    trips: Tensor | int | Dim | None = None,
    condition: Tensor | bool | None = None,
    scans: int | None = 0,
    carried_types: Types | None = None,
    results: Types | None = None,
    sizes: Sequence[str] = (),
) -> tuple[Tensor, ...]:
    """Repeats `body(iteration, condition, *carried) -> (condition, *carried, *slices)`.

    It ends after `trips` iterations or when the returned condition is false. The last `scans` results of the body
    (None: all that are not carried) are stacked, one slice an iteration. Returns the final carried tensors and
    the stacks. A carried tensor keeps its shape, unless `carried_types` (in the body) and `results` (at the end) give
    it sizes that are listed in `sizes`."""
    carried = [constant(value) for value in carried]
    if trips is None and condition is None:
        raise TypeMismatch("burn.loop does not end", ["give the number of trips, a condition, or both"])
    if active() is None:
        return _run(body, carried, trips, condition, scans, fixed=carried_types is None)
    count = None if trips is None else lift(trips, "int64")
    start = None if condition is None else lift(condition, "bool")
    inner = [c.type for c in carried] if carried_types is None else [spec(t) for t in carried_types]
    new = list(sizes)
    program = current().program

    def drawing(iteration: Tensor, *rest: Tensor) -> Any:
        with program.iterating(iteration.value):
            return body(iteration, *rest)

    region = _region(drawing, [TensorType("int64", ()), TensorType("bool", ()), *inner])
    given = region.types
    try:
        scans = _check_returned(given, inner if carried_types is None else [], len(carried), scans)
    except TypeMismatch:
        region.drop()
        raise
    if results is None:
        ends_early = not region.is_counted(count, start)
        if scans and (ends_early or not isinstance(trips, (int, Expr))):
            new.append(current().fresh("trips"))
            length: Dim = Expr.of(Symbol(new[-1]))
        else:
            length = dim_max(0, plain(trips)) if isinstance(trips, (int, Expr)) else 0
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


def _run(
    body: Callable[..., Any], carried: list[Tensor], trips: Any, condition: Any, scans: int | None, fixed: bool
) -> tuple[Tensor, ...]:
    """Runs the loop outside of traced functions. fixed: carried tensors keep their type, as in a traced function."""
    going = condition is None or bool(condition)
    limit = None if trips is None else int(trips)
    rows: list[list[Tensor]] = []
    first = len(carried)
    iteration = 0
    while going and (limit is None or iteration < limit):
        given = _step(body, iteration, carried, scans, fixed)
        evaluate(tensor.value for tensor in given)
        going, carried = bool(given[0]), given[1 : 1 + first]
        rows.append(given[1 + first :])
        iteration += 1
    if not rows and scans != 0:  # the types of the slices, without computing them
        slices = _step(body, 0, carried, scans, fixed)[1 + first :]
        return (*carried, *(zeros((0, *t.shape), dtype=t.dtype) for t in slices))
    return (*carried, *(concat([t[None] for t in column]) for column in zip(*rows, strict=True)))


def _step(
    body: Callable[..., Any], iteration: int, carried: list[Tensor], scans: int | None, fixed: bool
) -> list[Tensor]:
    """The body's results as tensors."""
    result = body(constant(iteration), constant(True), *carried)
    given = [constant(value) for value in (result if isinstance(result, (tuple, list)) else (result,))]
    _check_returned([t.type for t in given], [c.type for c in carried] if fixed else [], len(carried), scans)
    return given


def _check_returned(given: Sequence[TensorType], wanted: Sequence[TensorType], carried: int, scans: int | None) -> int:
    """The number of slices among a body's results. Raises TypeMismatch for a wrong number of results or wrong types."""
    if len(given) < 1 + carried or (scans is not None and len(given) != 1 + carried + scans):
        raise TypeMismatch(
            "the body of burn.loop returns the wrong number of tensors",
            [f"{len(given)}, not the condition, {carried} carried and {scans or 0} slices"],
        )
    if given[0] != TensorType("bool", ()):
        raise TypeMismatch("the body of burn.loop returns first whether it goes on", [f"a bool[], not {given[0]}"])
    problems = [
        f"tensor {i} is {have} after an iteration, not {want}"
        for i, (have, want) in enumerate(zip(given[1:], wanted, strict=False))
        if have != want
    ]
    if problems:
        raise TypeMismatch("what a loop carries keeps its type", problems)
    return len(given) - 1 - carried


# ---- loops over containers ---------------------------------------------------------------------------------------------
def while_loop(condition: Callable[..., Any], body: Callable[..., Any], init: Any) -> Any:
    """Applies `body(state)` to `init` repeatedly while `condition(state)` (a bool scalar) is true.

    The state is a tensor, a number, or a container of them; its structure, types and shapes stay the same."""
    state, structure = _leaves(init)

    def step(iteration: Tensor, going: Tensor, *carried: Tensor) -> tuple:
        new = _same(body(unflatten(structure, carried)), structure, "the body of burn.while_loop")
        return _bool(condition(unflatten(structure, new))), *new

    start = _bool(condition(unflatten(structure, state)))
    return unflatten(structure, loop(step, state, condition=start))


def fori_loop(start: Any, stop: Any, body: Callable[..., Any], init: Any) -> Any:
    """Applies `body(i, state)` to `init` repeatedly, for i (an int64 scalar) from start to stop - 1."""
    state, structure = _leaves(init)

    def step(iteration: Tensor, going: Tensor, *carried: Tensor) -> tuple:
        new = body(iteration + start, unflatten(structure, carried))
        return going, *_same(new, structure, "the body of burn.fori_loop")

    trips = stop - start
    if isinstance(trips, Tensor):
        trips = trips.astype("int64").maximum(0)
    return unflatten(structure, loop(step, state, trips=max(trips, 0) if isinstance(trips, int) else trips))


def scan(body: Callable[..., Any], init: Any, xs: Any = None, length: Size | None = None) -> tuple[Any, Any]:
    """Runs `body(carry, x) -> (carry, y)` over the slices x of `xs` along their first axis; returns the last carry and the
    ys, stacked. Both may be containers. Without xs, x is None and `length` is the number of iterations."""
    state, structure = _leaves(init)
    rows, row_structure = _leaves(xs)
    lengths = [row.type.shape[0] for row in rows if row.ndim] + ([] if length is None else [plain(length)])
    scalar = any(not row.ndim for row in rows)
    if not lengths or scalar or any(decide(n, "==", lengths[0]) is False for n in lengths):
        shapes = [row.shape for row in rows]
        raise TypeMismatch("burn.scan needs one length", [f"of the first axes of xs, {shapes}, and length, {length}"])
    for n in lengths[1:]:
        check(n, "==", lengths[0], "burn.scan goes over slices of all at once")
    outputs: list[Any] = []

    def step(iteration: Tensor, going: Tensor, *carried: Tensor) -> tuple:
        x = unflatten(row_structure, [row.take(iteration) for row in rows])
        result = body(unflatten(structure, carried), x)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeMismatch("the body of burn.scan returns (carry, y)", [f"not a {type(result).__name__}"])
        new = _same(result[0], structure, "the body of burn.scan")
        slices, slice_structure = _leaves(result[1])
        outputs[:] = [slice_structure]
        return going, *new, *slices

    results = loop(step, state, trips=lengths[0], scans=None)
    count = len(state)
    return unflatten(structure, results[:count]), unflatten(outputs[0], results[count:])


def _leaves(value: Any) -> tuple[list[Tensor], Any]:
    leaves, structure = flatten(value, lambda v: is_leaf(v) or isinstance(v, bool))
    return [constant(leaf) for leaf in leaves], structure


def _same(value: Any, structure: Any, who: str) -> list[Tensor]:
    leaves, own = _leaves(value)
    if own != structure:
        text = f"{_written(own)} instead of {_written(structure)}"
        raise TypeMismatch(f"{who} returns another structure than it was given", [text])
    return leaves


def _written(structure: Structure) -> str:
    """A structure in Python's syntax: {'x': tensor, 'pair': [tensor, None]}."""
    if isinstance(structure, Leaf):
        return "tensor"
    if isinstance(structure, Fixed):
        return repr(structure.value)
    items = [_written(child) for child in structure.children]
    if structure.cls is tuple:
        return f"({', '.join(items)}{',' * (len(items) == 1)})"
    if structure.cls is list:
        return f"[{', '.join(items)}]"
    if issubclass(structure.cls, Mapping):
        return f"{{{', '.join(f'{k!r}: {v}' for k, v in zip(structure.keys, items, strict=True))}}}"
    named = zip(structure.keys, items, strict=True) if structure.keys else [(i, v) for i, v in enumerate(items)]
    return f"{structure.cls.__name__}({', '.join(f'{k}={v}' for k, v in named)})"


def _bool(condition: Any) -> Tensor:
    flag = constant(condition)
    if flag.dtype != "bool" or flag.ndim:
        raise TypeMismatch("a condition is a bool scalar", [f"not {flag.type}"])
    return flag


def _refusing(flag: Tensor, branch: int, why: BurnError, types: Sequence[TensorType], unknown: set[str]) -> _region:
    """A branch of `cond` that ends the run. branch: 0 for then, 1 for otherwise; unknown: symbols that have no value there."""

    found = read_dim(flag.astype("int64"), current().fresh("branch_taken"))  # outside, so that derivatives can use it

    def values() -> list[Tensor]:
        check_size(found, "==", branch, f"the branch '{('then', 'otherwise')[branch]}' of burn.cond: {why.summary}")
        return [zeros(*(0 if escapes(d, unknown) else d for d in t.shape), dtype=t.dtype) for t in types]

    return _region(values)


class _region:
    """A function's ops, built in a block that moves into the region's op when its result types are known."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[TensorType] = ()) -> None:
        # The region's op does not exist yet: its types are known only when its regions are built.
        self._holder = ir.Module.create()
        block = self._holder.operation.regions[0].blocks.append(*[t.to_mlir() for t in arguments])
        self._block = block
        tracer = current()
        outer, tracer.region = tracer.region, object()
        try:
            with ir.InsertionPoint(block):
                result = function(*map(Tensor, block.arguments))
                given = result if isinstance(result, (tuple, list)) else [result]
                values = [lift(v, "bool" if isinstance(v, bool) else None) for v in given]
                ops.yield_([v.value for v in values])
        except Exception:
            self.drop()
            raise
        finally:
            tracer.region = outer
        self.types = [v.type for v in values]

    def drop(self) -> None:
        """Releases the program's values, before an error is raised: they would be in use as long as the error is kept. Custom
        derivatives keep the ops, because values of these are keys of theirs."""
        disconnect(self._holder.operation)
        if (customs := registered()) is not None:
            customs.kept.append(self._holder)

    def symbols(self) -> set[str]:
        """The sizes that are defined inside."""
        return region_symbols(self._holder.operation.regions[0])

    def is_counted(self, trips: Tensor | None, condition: Tensor | None) -> bool:
        """True if a loop with this body always runs all its trips."""
        count, start = (None if v is None else v.value for v in (trips, condition))
        return counted(count, start, self._block)

    def move_to(self, region: ir.Region) -> None:
        self._block.append_to(region)


def _merged(
    first: Sequence[TensorType], second: Sequence[TensorType], where: Sequence[str]
) -> tuple[list[TensorType], list[str]]:
    """Types that fit the results of both branches, and the new symbols in them."""
    problems = [
        f"then gives {a}, otherwise {b}{f', at {path}' if path else ''}"
        for a, b, path in zip(first, second, where, strict=True)
        if a.dtype != b.dtype or a.rank != b.rank
    ]
    if problems:
        raise TypeMismatch("the branches of burn.cond differ", problems)
    new: list[str] = []
    types = []
    for a, b in zip(first, second, strict=True):
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
