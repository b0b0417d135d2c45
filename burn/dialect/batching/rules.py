"""Batching rules that several op classes share, and the values and calls that rules take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, number, number_like, reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import TensorType, type_of

if TYPE_CHECKING:
    from burn.dialect.op import Op


@dataclass(frozen=True)
class Item:
    """An operand or result of one example. mapped: `value` holds those of all examples, with the mapped axis first; otherwise
    all examples share `value`."""

    value: Value
    mapped: bool

    @property
    def type(self) -> TensorType:
        """The type of one example's value."""
        type_ = type_of(self.value)
        return type_.with_shape(type_.shape[1:]) if self.mapped else type_

    def all(self, size: Dim) -> Value:
        """The values of all examples, [size, ...]; a shared value is broadcast."""
        return self.value if self.mapped else broadcast_to(self.value, (size, *self.type.shape))


@dataclass(frozen=True)
class Call:
    """An op of one example to batch. operands: Items, None, or lists of Items; types: the results' types of one example; size:
    the number of examples."""

    cls: type[Op]
    operands: list[Any]
    attrs: dict[str, Any]
    types: list[TensorType]
    size: Dim

    @property
    def items(self) -> Iterator[Item]:
        """The operands as a flat list, without absent ones."""
        for operand in self.operands:
            if isinstance(operand, list):
                yield from operand
            elif operand is not None:
                yield operand

    def named(self) -> dict[str, Any]:
        """The operands by name."""
        return dict(zip((name for name, _ in self.cls.OPERANDS), self.operands, strict=True))

    def build(self, operands: Sequence[Any], **changed: Any) -> Any:
        """The op with batched operands and changed attributes."""
        return self.cls.build(*operands, **{**self.attrs, **changed})

    def all(self, operand: Item | None) -> Value | None:
        return None if operand is None else operand.all(self.size)


Rule: TypeAlias = Callable[[Call], Any]
"""rule(call): the batched result, or a list for several. A value has the mapped axis first; an `Item` says if it is mapped.
NotImplemented if the rule does not cover these operands: the op is then decomposed."""

COUNTED = "the size of its result depends on the elements, and would differ between examples"
LISTS = "examples have no lists of their own"
"""Reasons why several ops have no rule."""


def moved(x: Value, source: int, target: int) -> Value:
    """x with one axis moved."""
    order = [i for i in range(type_of(x).rank) if i != source]
    order.insert(target, source)
    return transpose(x, tuple(order))


def merged(x: Value, axis: int) -> Value:
    """x with axes `axis` and `axis` + 1 merged into one."""
    shape = type_of(x).shape
    return reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def divided(x: Value, axis: int, *sizes: Dim) -> Value:
    """x with one axis divided into several of these sizes."""
    shape = type_of(x).shape
    return reshape(x, (*shape[:axis], *sizes, *shape[axis + 1 :]))


def aligned(item: Item, rank: int) -> Value:
    """A value such that it broadcasts with others as each example's do: the mapped axis is followed by `rank` axes."""
    shape = item.type.shape
    if not item.mapped or len(shape) == rank:
        return item.value
    return reshape(item.value, (type_of(item.value).shape[0], *(1,) * (rank - len(shape)), *shape))


def elementwise(call: Call) -> Value:
    """Rule of ops whose operands broadcast as in numpy."""
    rank = max(item.type.rank for item in call.items)
    return call.build([aligned(item, rank) for item in call.operands])


def spread(call: Call) -> Value:
    """Rule of ops whose further operands broadcast to the first."""
    x, *rest = call.operands
    return call.build([x.all(call.size), *(aligned(item, x.type.rank) for item in rest)])


def later(axis: int) -> int:
    """The same axis of one example, of all examples."""
    return axis + 1 if axis >= 0 else axis


def leading(*axes: str) -> Rule:
    """Rule of ops on axes of their first operand, which the attributes `axes` number: further leading axes change nothing. Other
    operands must be shared."""

    def rule(call: Call) -> Any:
        x, *rest = call.operands
        if not x.mapped or any(item is not None and item.mapped for item in rest):
            return NotImplemented
        value = x.value
        if not x.type.rank:  # axis 0 of a scalar
            value = reshape(value, (call.size, 1))
        changed = {name: call.attrs[name] for name in axes}
        for name, own in changed.items():
            if own is not None:
                changed[name] = later(own) if isinstance(own, int) else tuple(map(later, own))
        return call.build([value, *(None if item is None else item.value for item in rest)], **changed)

    return rule


def folded(results: Sequence[int] = (0,), **axes: int) -> Rule:
    """Rule of ops with a batch axis of independent entries: the mapped axis is merged into it. axes: the batch axis of each
    operand that has one; results: that of each result. Other operands must be shared."""

    def rule(call: Call) -> Any:
        operands: list[Any] = []
        for name, item in call.named().items():
            if item is None:
                operands.append(None)
            elif name in axes:
                operands.append(fold(item.all(call.size), axes[name]))
            elif item.mapped:
                return NotImplemented
            else:
                operands.append(item.value)
        made = call.build(operands)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        return [
            unfold(y, axis, call.size, type_.shape[axis])
            for y, axis, type_ in zip(made, results, call.types, strict=True)
        ]

    return rule


def fold(x: Value, axis: int) -> Value:
    """Values of all examples with the mapped axis merged into the axis that is `axis` of one example."""
    return merged(moved(x, 0, axis), axis)


def unfold(x: Value, axis: int, size: Dim, own: Dim) -> Value:
    """The inverse: the mapped axis comes first again. own: the axis's size in one example."""
    return moved(divided(x, axis, size, own), axis, 0)


def barrier(call: Call) -> Any:
    """A shared x stays shared."""
    x, after = call.operands
    return Item(ops.barrier(x.value, after.value), x.mapped)


def observed(call: Call) -> list[Value]:
    """Rule of checks of all elements: of those of all examples."""
    (values,) = call.operands
    call.build([[item.value for item in values]])
    return []


# ---- views -------------------------------------------------------------------------------------------------------------
def reshaped(call: Call) -> Value:
    return reshape(call.operands[0].value, (call.size, *call.attrs["shape"]))


def broadcast(call: Call) -> Value:
    shape = call.attrs["shape"]
    return broadcast_to(aligned(call.operands[0], len(shape)), (call.size, *shape))


def transposed(call: Call) -> Value:
    return call.build([call.operands[0].value], permutation=(0, *(i + 1 for i in call.attrs["permutation"])))


def sliced(call: Call) -> Value:
    (x,) = call.operands
    first = {"starts": 0, "sizes": call.size, "steps": 1}
    return call.build([x.value], **{name: (number, *call.attrs[name]) for name, number in first.items()})


def padded(call: Call) -> Value:
    """A mapped padding value is selected where padding is."""
    x, value = call.operands
    first: dict[str, tuple[Any, ...]] = {name: (0, *call.attrs[name]) for name in ("low", "high")}
    first["interior"] = (0, *call.attrs["interior"]) if call.attrs["interior"] else ()
    if not value.mapped:
        return call.build([x.value, value.value], **first)
    inside = call.build([broadcast_to(number(True, "bool"), x.type.shape), number(False, "bool")])
    if x.mapped:
        around = call.build([x.value, number_like(0, x.value)], **first)
    else:
        around = call.build([x.value, number_like(0, x.value)])
    return ops.select(inside, around, aligned(value, x.type.rank))


def joined(call: Call) -> Value:
    (xs,) = call.operands
    return call.build([[item.all(call.size) for item in xs]], axis=later(call.attrs["axis"]))


def windowed(call: Call) -> Value:
    """Rule of reductions over windows: windows of one element along the mapped axis."""
    first = {"window": 1, "strides": 1, "dilations": 1, "low": 0, "high": 0}
    return call.build([call.operands[0].value], **{name: (n, *call.attrs[name]) for name, n in first.items()})


def together(call: Call) -> Any:
    """Rule of ops on the last axes of operands of one shape."""
    return call.build([call.all(item) for item in call.operands])


def by_channel(call: Call) -> Any:
    """Rule of normalisations of x [N, C, ..] with parameters for each channel: the mapped axis joins N."""
    return folded(x=0)(call) if call.operands[0].type.rank > 1 else NotImplemented


def by_entry(**axes: int) -> Rule:
    """Rule of losses: the mapped axis joins the batch unless the loss reduces it."""

    def rule(call: Call) -> Any:
        kept = call.attrs["reduction"] == "none"
        return folded(results=(0,) * len(call.types), **axes)(call) if kept else NotImplemented

    return rule


def looked_up(call: Call) -> Any:
    """Rule of look-ups of each element in a shared table."""
    x, table = call.operands
    return NotImplemented if table.mapped else call.build([x.value, table.value])
