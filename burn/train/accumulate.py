"""Gradient accumulation: a loop over parts of the batch in the compiled step, which needs the memory of one part.

Loss and gradients equal those of the whole batch if the loss is a sum of loss layers' means and sums
(`burn.nn.loss`) and of means over rows. A first loop sums the weights of all means; it does not run the model if the weights
depend on targets alone. With these weights each part's loss is its contribution to the batch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from burn.errors import Problem, TypeMismatch
from burn.nn.loss.reductions import collecting, normalised
from burn.nn.module import Module
from burn.nn.parameter import Parameter
from burn.runtime.debugging import silenced
from burn.tensors import Tensor, constant, trees
from burn.tensors.base import made
from burn.tensors.concatenation import concat
from burn.tensors.control import check_size, scan
from burn.tensors.creation import zeros
from burn.tensors.gradients import Gradients
from burn.tensors.promotion import lift
from burn.tensors.random_replay import Draws
from burn.tensors.tracer import active

Part = Callable[..., tuple[Tensor, Any, Gradients]]
"""Of a part of a batch: its loss, what else is wanted of it, and the gradients by path."""


class Split(NamedTuple):
    """A division of a batch into `parts` parts. The first `larger` parts have one row more than the others."""

    parts: int
    larger: int

    @staticmethod
    def of(args: Any, kwargs: Any, count: int) -> Split:
        """`count` parts, or as many as there are rows. Sizes that are not known yet are taken to be a multiple of `count`."""
        rows = [leaf for leaf in trees.flatten((args, kwargs))[0] if getattr(leaf, "shape", ())]
        size = rows[0].shape[0] if rows else 0
        if not isinstance(size, int) or count == 1:
            return Split(count, 0)
        return Split(count, size % count) if size > count else Split(max(size, 1), 0)


WHOLE = Split(1, 0)
"""Of a batch that is taken in one part."""


@dataclass(frozen=True)
class _Section:
    """Parts of one size. xs: the rows of all tensors [parts, rows of a part, ...]; share: a part's share of the batch's rows."""

    xs: list[Tensor]
    share: Tensor


def in_parts(
    function: Part,
    forward: Callable[..., Any],
    split: Split,
    model: Module,
    moved: Mapping[str, Parameter],
    args: Any,
    kwargs: Any,
) -> tuple[Tensor, Any, Gradients]:
    """The batch's loss and gradients, and the parts' other results, stacked along a new first axis.
    forward: the loss of a part alone; moved: the parameters that get gradients. Running statistics pass from part to part.
    Raises TypeMismatch."""
    leaves, structure = trees.flatten((args, kwargs))
    sections = _sections([constant(leaf) for leaf in leaves if leaf.ndim], split)
    buffers = [buffer for _, buffer in model.named_buffers()]
    statistics = [buffer * 1 for buffer in buffers] if active() is not None else []

    def given(x: Sequence[Tensor]) -> Any:
        rest = iter(x)
        return trees.unflatten(structure, [next(rest) if leaf.ndim else leaf for leaf in leaves])

    weights = _weights(forward, sections, given, buffers, statistics)
    written: set[int] = set()
    unused: set[str] = set(moved)

    def section(part: _Section, statistics: list[Tensor]) -> Any:
        def step(carry: Any, x: Sequence[Tensor]) -> Any:
            sums, before = carry
            args, kwargs = given(x)
            with _carried(buffers, before) as after, normalised(part.share, weights):
                loss, extra, gradients = function(*args, **kwargs)
            unused.intersection_update(gradients.unused)
            written.update(
                i for i, (old, new) in enumerate(zip(before, after, strict=True)) if new.value is not old.value
            )
            return ({path: total + gradients[path] for path, total in sums.items()}, after), (loss, extra)

        start = {path: zeros(p.shape, dtype=p.dtype) for path, p in moved.items()}
        (sums, after), (losses, extra) = scan(step, (start, statistics), part.xs)
        loss = (losses.astype("float64").sum() * part.share).astype(losses.dtype)
        return loss, extra, {path: g * part.share.astype(g.dtype) for path, g in sums.items()}, after

    loss, extra, gradients, statistics = section(sections[0], statistics)
    for part in sections[1:]:
        another, other, more, statistics = section(part, statistics)
        loss, extra = loss + another, _joined(extra, other)
        gradients = {path: g + more[path] for path, g in gradients.items()}
    for i in sorted(written):
        buffers[i].assign(statistics[i])
    return loss, extra, Gradients(gradients, unused)


def _sections(rows: Sequence[Tensor], split: Split) -> list[_Section]:
    parts, larger = split
    if not rows:
        raise TypeMismatch("a batch is taken in parts along its first axis", ["there is no tensor with axes"])
    size = rows[0].shape[0]
    part = (size - larger) // parts
    check_size(size, "==", part * parts + larger, f"a batch is taken in {parts} parts of one size")
    whole = lift(size, "float64")
    made_of = []
    for count, each, start in ((larger, part + 1, 0), (parts - larger, part, larger * (part + 1))):
        if count:
            own = [row if not larger else row[start : start + count * each] for row in rows]
            xs = [row.reshape(count, each, *row.shape[1:]) for row in own]
            made_of.append(_Section(xs, lift(each, "float64") / whole if larger else constant(1.0 / parts, "float64")))
    return made_of


def _weights(
    forward: Callable[..., Any],
    sections: Sequence[_Section],
    given: Callable[[Sequence[Tensor]], Any],
    buffers: Sequence[Parameter],
    statistics: Sequence[Tensor],
) -> list[Tensor]:
    """The weights of the batch's means, summed over its parts; empty if equal parts make every mean the mean of the parts'
    means. Random state and running statistics do not change."""
    found, sized = _weighed(forward, sections, given, buffers, statistics)
    if len(sections) == 1 and sized:
        return []
    return [_total([w.sum() for w in weights]) for weights in zip(*found, strict=True)]


def _weighed(
    forward: Callable[..., Any],
    sections: Sequence[_Section],
    given: Callable[[Sequence[Tensor]], Any],
    buffers: Sequence[Parameter],
    statistics: Sequence[Tensor],
) -> tuple[list[list[Tensor]], bool]:
    """For each section the weights of its parts' means [parts]; and true if all depend on sizes alone."""
    before = [(buffer, made(buffer.value)) for buffer in buffers] if active() is None else []
    sized: list[bool] = []

    def weigh(carry: Any, x: Sequence[Tensor]) -> Any:
        args, kwargs = given(x)
        with _carried(buffers, statistics), collecting() as means, silenced():
            forward(*args, **kwargs)
        sized[:] = [mean.sized for mean in means.found]
        return carry, [mean.weight.astype("float64") for mean in means.found]

    draws = Draws.now()
    with draws.again(draws.iterations):
        found = [scan(weigh, [constant(0)], part.xs)[1] for part in sections]
    for buffer, value in before:
        if buffer.value is not value.value:
            buffer.assign(value)
    return found, all(sized)


def weights_of(forward: Callable[..., Any], model: Module, args: Any, kwargs: Any) -> list[Tensor]:
    """The weights of a batch's means, float64 scalars, in a traced function. Random state and statistics do not change."""
    leaves, structure = trees.flatten((args, kwargs))
    buffers = [buffer for _, buffer in model.named_buffers()]

    def given(x: Sequence[Tensor]) -> Any:
        rest = iter(x)
        return trees.unflatten(structure, [next(rest) if leaf.ndim else leaf for leaf in leaves])

    sections = _sections([constant(leaf) for leaf in leaves if leaf.ndim], Split(1, 0))
    (found,), _ = _weighed(forward, sections, given, buffers, [buffer * 1 for buffer in buffers])
    return [weight.sum() for weight in found]


def rows_of(args: Any, kwargs: Any) -> int:
    """The size of the first axis of a batch's first tensor with axes. Raises TypeMismatch if there is none."""
    for leaf in trees.flatten((args, kwargs))[0]:
        if getattr(leaf, "shape", ()):
            return int(leaf.shape[0])
    raise TypeMismatch("a batch has rows along its first axis", ["there is no tensor with axes"])


def _total(sums: Sequence[Tensor]) -> Tensor:
    total = sums[0]
    for other in sums[1:]:
        total = total + other
    return total


def _joined(first: Any, second: Any) -> Any:
    """The other results of the parts of both sections, concatenated."""
    leaves, structure = trees.flatten(first)
    others, own = trees.flatten(second)
    problems = [
        Problem(
            f"{path or 'the result'} is {a.type} in one and {b.type} in the other", hint="sum over the rows of a part"
        )
        for path, a, b in zip(trees.paths(structure), leaves, others, strict=True)
        if a.type.shape[1:] != b.type.shape[1:] or a.dtype != b.dtype
    ]
    if problems or structure != own:
        raise TypeMismatch(
            "has_aux's results of parts of unequal size do not stack", problems or [f"{structure}, {own}"]
        )
    return trees.unflatten(structure, [concat([a, b]) for a, b in zip(leaves, others, strict=True)])


@contextmanager
def _carried(buffers: Sequence[Parameter], values: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """In a traced loop, makes buffers be what it carries; their next values are in the list when this ends. Elsewhere they are
    assigned to at once, and nothing is carried."""
    tracer = active()
    after: list[Tensor] = []
    if tracer is None:
        yield after
        return
    with tracer.carrying([(b, v.value) for b, v in zip(buffers, values, strict=True)]) as now:
        yield after
        after += [Tensor(now(buffer)) for buffer in buffers]
