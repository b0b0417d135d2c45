"""Gradients of a batch that is taken in parts: a loop in the compiled step, which needs the memory of one part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from burn.errors import TypeMismatch
from burn.nn.module import Module
from burn.nn.parameter import Parameter
from burn.tensors import Tensor, trees
from burn.tensors.control import check_size, scan
from burn.tensors.creation import zeros
from burn.tensors.tracer import active

Gradients = dict[str, Tensor]
Part = Callable[..., tuple[Tensor, Any, Gradients]]
"""Of a part of a batch: its loss, what else is wanted of it, and the gradients by path."""


def in_parts(
    function: Part, count: int, model: Module, moved: Mapping[str, Parameter], args: Any, kwargs: Any
) -> tuple[Tensor, Any, Gradients]:
    """The means of the parts' losses and gradients, and what else is wanted of them, one part after the other along a new first
    axis. moved: the parameters whose gradients are wanted. Running statistics go from part to part. Raises TypeMismatch."""
    leaves, structure = trees.flatten((args, kwargs))
    rows = [leaf for leaf in leaves if leaf.ndim]
    if not rows:
        raise TypeMismatch("a batch is taken in parts along its first axis", ["there is no tensor with axes"])
    size = rows[0].shape[0]
    part = size // count
    check_size(size, "==", part * count, f"a batch is taken in {count} parts of one size")
    xs = [row.reshape(count, part, *row.shape[1:]) for row in rows]
    buffers = [buffer for _, buffer in model.named_buffers()]
    written: set[int] = set()

    def step(carry: Any, x: Sequence[Tensor]) -> Any:
        sums, statistics = carry
        rest = iter(x)
        given, named = trees.unflatten(structure, [next(rest) if leaf.ndim else leaf for leaf in leaves])
        with _carried(buffers, statistics) as after:
            loss, extra, gradients = function(*given, **named)
        written.update(
            i for i, (old, new) in enumerate(zip(statistics, after, strict=True)) if new.value is not old.value
        )
        return ({path: total + gradients[path] for path, total in sums.items()}, after), (loss, extra)

    start = {path: zeros(p.shape, dtype=p.dtype) for path, p in moved.items()}
    statistics = [buffer * 1 for buffer in buffers] if active() is not None else []
    (sums, after), (losses, extra) = scan(step, (start, statistics), xs)
    for i in sorted(written):
        buffers[i].assign(after[i])
    return losses.mean(), extra, {path: total * (1.0 / count) for path, total in sums.items()}


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
