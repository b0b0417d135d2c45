"""Rules by group kind: which op may join."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from burn.dialect.contraction import DotGeneral
from burn.dialect.dims import Dim, estimate, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import op_of, used_once
from burn.dialect.reduction import ArgReduce
from burn.dialect.shape import BroadcastTo, Concat, Pad, Reshape
from burn.dialect.traits import Trait
from burn.dialect.types import HALF_DTYPES, type_of
from burn.kernels.builders.loop import loads_together
from burn.kernels.builders.reduce import is_total
from burn.kernels.builders.split_reduction import DIVIDING
from burn.passes.fusion.choice import Choice
from burn.passes.fusion.cluster import Cluster, axes_of

Shape = tuple[Dim, ...]


def _shape(op: Op) -> tuple[Dim, ...]:
    return type_of(op.operation.results[0]).shape


def reads_directly(choice: Choice, op: Op, cluster: Cluster) -> bool:
    """True if an op reads a cluster's results only directly, not through a view."""
    for value in op.operation.operands:
        if choice.cluster_of(choice.source(value)) is cluster and choice.cluster_of(value) is not cluster:
            return False
    return True


def _joins_loop(choice: Choice, op: Op, cluster: Cluster) -> bool:
    if op.has(Trait.REDUCTION):
        return (
            type_of(op.x).shape == cluster.space
            and choice.cluster_of(op.x) is cluster
            and _pays_to_join(choice, cluster, op)
        )
    if op.KERNEL or isinstance(op, Concat):
        return False
    if _shape(op) != cluster.space:
        return False
    if not all(lowers_elementwise(choice, concat) for concat in cluster.concats):
        return False
    return reads_directly(choice, op, cluster)


def lowers_elementwise(choice: Choice, op: Op) -> bool:
    """True if a concat is lowered elementwise, fused with its readers."""
    return computes_operands(choice, op) or (isinstance(op, Concat) and loads_together(op, choice.preferences))


def computes_operands(choice: Choice, op: Op) -> bool:
    """True if the loop of a concat also has the producers of its operands."""
    return isinstance(op, Concat) and len(op.xs) <= choice.preferences.concat_operands


def reads_rows(choice: Choice, op: Op, cluster: Cluster) -> bool:
    """True if an op reads a reduction's results directly, or through views that keep the row. A kernel holds one row."""
    return reads_directly(choice, op, cluster) or (isinstance(op, Pointwise) and _joins_reduce(choice, op, cluster))


def _pays_to_join(choice: Choice, cluster: Cluster, op: Op) -> bool:
    """A reduction of a whole tensor that does not run in blocks runs on one thread: the ops before it should not. Their result is
    not written if nothing else reads it."""
    axes = axes_of(op)
    if any(d != 1 for i, d in enumerate(cluster.space) if i not in axes):
        return True
    return not isinstance(op, ArgReduce) and used_once(op.x) and _in_blocks(choice, axes, cluster.space)


def _joins_reduce(choice: Choice, op: Op, cluster: Cluster) -> bool:
    if op.has(Trait.REDUCTION):
        arg = any(isinstance(m, ArgReduce) for m in (*cluster.members, op))
        return (
            not arg
            and type_of(op.x).shape == cluster.space
            and choice.cluster_of(op.x) is cluster
            and (axes_of(op) == cluster.axes or reduces_columns(choice, cluster, axes_of(op)))
        )
    if not isinstance(op, Pointwise):
        return False
    axes = _axes_behind(choice, op, cluster)
    if axes is None:
        return False
    kept = tuple(1 if i in axes else d for i, d in enumerate(cluster.space))
    squeezed = tuple(d for i, d in enumerate(cluster.space) if i not in axes)
    shape = _shape(op)
    if shape not in (cluster.space, kept, squeezed) or (shape == cluster.space and _in_blocks(choice, axes, shape)):
        return False
    for value in op.operation.operands:
        source = choice.source(value)
        if choice.cluster_of(source) is not cluster:
            continue
        have = type_of(source).shape
        if have == cluster.space != kept:
            if shape != cluster.space or source != value:
                return False
        elif not _same_rows(value, source, shape, axes, (kept, cluster.space, squeezed)):
            return False
    return True


def _in_blocks(choice: Choice, axes: Collection[int], space: Shape) -> bool:
    """True if a reduction yields one number of a tensor that is, or may be, reduced in parallel blocks. Elementwise ops on that
    number (bytes by a tensor's own range) should not run on the single thread that combines these."""
    block, total = choice.preferences.reduce_block, product(space)
    long = not isinstance(total, int) or total >= 4 * block
    return block > 0 and long and is_total(space, axes)


def reduces_columns(choice: Choice, cluster: Cluster, axes: frozenset[int]) -> bool:
    """True if a reduction's kernel can also reduce its other axes, row by row: column sums of rows that it reads
    anyway. Nothing else in it may depend on the column reductions, which finish last."""
    if cluster.across:
        return axes == cluster.across
    rank = len(cluster.space)
    if cluster.axes & axes or len(cluster.axes | axes) != rank:
        return False
    leading, trailing = sorted((cluster.axes, axes), key=lambda a: rank - 1 in a)
    columns = product([cluster.space[i] for i in trailing])
    rows = product([cluster.space[i] for i in leading])
    if (
        leading != frozenset(range(len(leading)))
        or not isinstance(columns, int)
        or not 1 < columns <= choice.preferences.column_reduction_width
    ):
        return False
    if isinstance(rows, int) and rows < choice.preferences.column_reduction_blocks:
        return False
    return all(
        _shape(m) != cluster.space or not any(_follows(choice, v, cluster, leading) for v in m.operation.operands)
        for m in cluster.members
    )


def _axes_behind(choice: Choice, op: Op, cluster: Cluster) -> frozenset[int] | None:
    """The axes of the reductions that an op's operands in the cluster depend on; None if they depend on reductions
    along different axes."""
    if not cluster.across:
        return cluster.axes
    leading, trailing = sorted((cluster.axes, cluster.across), key=lambda axes: len(cluster.space) - 1 in axes)
    mine = [v for v in op.operation.operands if choice.cluster_of(choice.source(v)) is cluster]
    down = {_follows(choice, v, cluster, leading) for v in mine}
    if True not in down:
        return trailing
    return leading if down == {True} and _shape(op) != cluster.space else None


def _follows(choice: Choice, value: ir.Value, cluster: Cluster, axes: frozenset[int]) -> bool:
    """True if a value of a cluster depends on one of its reductions along these axes."""
    todo, seen = [value], set()
    while todo:
        source = choice.source(todo.pop())
        op = op_of(source)
        if op is None or source in seen or choice.cluster_of(source) is not cluster:
            continue
        seen.add(source)
        if op.has(Trait.REDUCTION) and axes_of(op) == axes:
            return True
        todo += op.operation.operands
    return False


def _same_rows(value: ir.Value, source: ir.Value, shape: Shape, axes: frozenset[int], allowed: Sequence[Shape]) -> bool:
    """True if a reduction's result, looking through views, is read at its own row: views only add or drop axes of size
    1 for the reduced ones, or broadcast along them.

    A shape alone is not enough: for a square space, per-row numbers [n] broadcast to [n, n] are laid out along the
    columns. Broadcasting aligns the last axes. So a value with fewer axes may be broadcast only if the reduced axes
    come first.
    """
    leading = axes == frozenset(range(len(axes)))
    wider = shape
    while True:
        mine = type_of(value).shape
        if len(mine) < len(wider) and not leading:
            return False
        if value == source:
            return True
        op = op_of(value)
        assert op is not None
        if mine not in allowed or _operand(op) not in allowed or not isinstance(op, Reshape | BroadcastTo):
            return False
        wider = _operand(op) if isinstance(op, Reshape) else mine  # a reshape does not broadcast
        value = op.x


def _operand(op: Op) -> Shape:
    return type_of(op.x).shape


def _joins_epilogue(choice: Choice, op: Op, cluster: Cluster) -> bool:
    return isinstance(op, Pointwise) and _shape(op) == cluster.space and reads_directly(choice, op, cluster)


def _joins_contraction(choice: Choice, op: Op, cluster: Cluster) -> bool:
    return _joins_epilogue(choice, op, cluster) and not (_is_costly(choice, op, cluster) and _is_large(choice, cluster))


def _is_costly(choice: Choice, op: Op, cluster: Cluster) -> bool:
    """True if an op is an expensive function of every element, or reads the result of a group of such functions that it
    could join."""
    others = {c for v in op.operation.operands if (c := choice.cluster_of(v)) is not None and c is not cluster}
    beside = [m for c in others if c.kind == "loop" and c.space == cluster.space for m in c.members]
    return any(isinstance(m, Pointwise) and m.FUNCTION in DIVIDING for m in (op, *beside))


def _is_large(choice: Choice, cluster: Cluster) -> bool:
    """True if a group is a half-precision matmul that the target prefers without an expensive epilogue. Each tensor that its
    epilogue stores for others takes registers: of AdamW's three, the two moments stay with the gradient."""
    first, most = cluster.members[0], choice.preferences.separate_epilogue
    result = type_of(first.operation.results[0])
    if most == 0 or not isinstance(first, DotGeneral) or result.dtype not in HALF_DTYPES:
        return False
    stored = sum(any(_keeps(use.owner) for use in m.operation.results[0].uses) for m in cluster.members)
    return estimate(result.elements) * max(1, stored) >= most


def _keeps(user: ir.Operation | ir.OpView) -> bool:
    """True if a user reads a value from memory: a program's result."""
    return user.operation.name == "burn.return"


def _joins_window(choice: Choice, op: Op, cluster: Cluster) -> bool:
    """Elements of other tensors may be padded in a kernel of windows: a maximum's gradient compares each with its window's."""
    pads = isinstance(op, Pad) and _shape(op) == cluster.space and reads_directly(choice, op, cluster)
    return pads or _joins_epilogue(choice, op, cluster)


JOINS: dict[str, Callable[[Choice, Op, Cluster], bool]] = {
    "loop": _joins_loop,
    "reduce": _joins_reduce,
    "window": _joins_window,
    "contract": _joins_contraction,
    "attention": _joins_epilogue,
    "attention_gradient": lambda *_: False,
    "cumulative": lambda *_: False,
    "scatter": lambda *_: False,
    "segments": _joins_epilogue,
    "sort": lambda *_: False,
    "split": lambda *_: False,
    "join": _joins_epilogue,
    "concat": lambda *_: False,
    "foreach": lambda *_: False,
}
