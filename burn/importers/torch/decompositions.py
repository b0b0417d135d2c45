"""The decompositions that torch runs before the import: all that it has, except for operators with a builder.

Operators that burn has as ops (attention, norms, convolutions, activations ...) stay whole, because there are kernels and
patterns for them. Rare operators are decomposed. With this one rule a new builder needs no second entry elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._prims_common import suggest_memory_format

from burn.importers.torch.composed import COMPOSED
from burn.importers.torch.gradients import GRADIENTS
from burn.importers.torch.node import BUILDERS
from burn.importers.torch.ops import load_builders
from burn.importers.torch.strides import MISTAKEN, is_elementwise, with_eager_strides


@cache
def for_export() -> Any:
    """For `ExportedProgram.run_decompositions`."""
    load_builders()
    table = torch.export.default_decompositions()
    for op in [op for op in table if _is_whole(op)]:
        table.pop(op)
    for op, function in _registered().items():
        if op not in table or op in MENDED:
            table[op] = function
    return table


@cache
def for_autograd() -> dict[Any, Callable[..., Any]]:
    """The table for AOTAutograd, which has already decomposed composite operators."""
    load_builders()
    table = {**_registered(), torch.ops.aten.roll.default: roll}
    elementwise = {op: with_eager_strides(op, function) for op, function in table.items() if is_elementwise(op)}
    return {**table, **elementwise, **{op: with_eager_strides(op) for op in MISTAKEN}, **_of_lists()}


def _registered() -> dict[Any, Callable[..., Any]]:
    """Decompositions of operators that have no builder: torch's, those that it lacks, and some with its mistakes mended."""
    return {
        op: function
        for op, function in (*decomposition_table.items(), *COMPOSED.items(), *GRADIENTS.items(), *MENDED.items())
        if isinstance(op, torch._ops.OpOverload) and not _is_whole(op)
    }


NAMED = ("alpha", "value", "dtype")
"""Arguments that operators take by name alone where their counterparts for lists take them by position."""
RENAMED = {"norm": "linalg_vector_norm", "zero": "zeros_like", "copy": "copy"}
"""The operator for one tensor, by the name of that for lists without "_foreach_", where the names differ."""


def _of_lists() -> dict[Any, Callable[..., Any]]:
    """Operators for lists of tensors (`_foreach_add`), which optimizers call on GPUs, as calls for each tensor."""
    found: dict[Any, Callable[..., Any]] = {}
    for name in dir(torch.ops.aten):
        single = name.removeprefix("_foreach_")
        if single == name or single.endswith("_"):
            continue
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            op = getattr(packet, overload)
            name_of_one = RENAMED.get(single, single)
            if "out" not in overload and hasattr(torch.ops.aten, name_of_one) and not _is_whole(op):
                found[op] = partial(_for_each, op, name_of_one)
    return found


def _for_each(op: Any, single: str, *given: Any, **named: Any) -> list[Tensor]:
    function = getattr(torch.ops.aten, single)
    names = [a.name for a in op._schema.arguments]
    lists = {a.name for a in op._schema.arguments if str(a.type).startswith("List[")}
    arguments = {**dict(zip(names, given, strict=False)), **named}
    arguments.pop("non_blocking", None)
    count = next(len(value) for value in arguments.values() if isinstance(value, (list, tuple)))
    results = []
    for i in range(count):
        own = {
            n: v[i] if n in lists or (n == "scalars" and not isinstance(v, (int, float))) else v
            for n, v in arguments.items()
        }
        if "scalars" in own and single in ("addcmul", "addcdiv"):
            own["value"] = own.pop("scalars")
        by_name = {n: own.pop(n) for n in list(own) if n in NAMED and own[n] is not None}
        own.pop("dtype", None)
        results.append(_single(function, single, list(own.values()), by_name))
    return results


def _single(function: Any, single: str, operands: list[Any], named: dict[str, Any]) -> Tensor:
    value = named.get("value")
    if isinstance(value, Tensor):  # a factor that is an element of a tensor
        x, first, second = operands
        made = first * second if single == "addcmul" else first / second
        return x + value * made
    if single in ("clamp_min", "clamp_max", "maximum", "minimum") and not isinstance(operands[1], Tensor):
        bound = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(single, single)
        return getattr(torch.ops.aten, bound)(*operands)
    return function(*operands, **named)


def _is_whole(op: Any) -> bool:
    """True if there is a builder. torch's decompositions of `complex` and `polar` write to views of an empty tensor, which
    AOTAutograd's functional graphs must not do."""
    return str(op) in BUILDERS


# ---- torch's, whose mistakes in some versions are known --------------------------------------------------------------------
GROUPS = torch.ops.aten.native_group_norm_backward.default


def group_norm_backward(grad: Tensor, x: Tensor, *rest: Any) -> Any:
    """torch's decomposition divides by the elements of a group for the gradient of x, and a group may be empty."""
    *facts, (of_x, *others) = rest
    some = x.numel() != 0
    share, *shares = decomposition_table[GROUPS](grad, x, *facts, [of_x and some, *others])
    return (share if some or not of_x else torch.zeros_like(x), *shares)


LABELS = torch.ops.aten.multilabel_margin_loss_forward.default


def multilabel_margin_loss_forward(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """torch's decomposition takes each entry of a row from the first -1 on for class 0, where eager mode has no label."""
    rows, labels, classes = torch.atleast_2d(x), torch.atleast_2d(target), x.shape[-1]
    given = (labels == -1).cumsum(1) == 0
    scores = rows.gather(1, torch.where(given, labels, 0))
    of_class = (labels[:, :, None] == torch.arange(classes, device=x.device)) & given[:, :, None]
    is_target = of_class.any(1)
    margins = (1 - scores[:, :, None] + rows[:, None]).clamp_min(0) / classes
    loss = torch.where(given[:, :, None] & ~is_target[:, None], margins, 0).sum((1, 2))
    loss = (loss.reshape(x.shape[:-1]), loss.mean(), loss.sum())[reduction]
    return loss, is_target.to(x.dtype).reshape(x.shape)


def roll(x: Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Tensor:
    """torch's selects by index, which gives contiguous strides; eager mode joins two parts, which keeps channels last."""
    whole = decomposition_table[torch.ops.aten.roll.default]
    if len(shifts) != 1 or len(dims) != 1 or not x.dim() or x.numel() == 0:
        return whole(x, shifts, dims)
    if any(not isinstance(n, int) for n in x.shape):
        # Parts of named sizes would leave Dynamo guards on sizes without a source.
        rolled, kept = whole(x, shifts, dims), suggest_memory_format(x)
        return rolled if kept is torch.contiguous_format else rolled.clone(memory_format=kept)
    size = x.shape[dims[0]]
    start = (size - shifts[0]) % size
    return torch.cat([x.narrow(dims[0], start, size - start), x.narrow(dims[0], 0, start)], dims[0])


MENDED: dict[Any, Callable[..., Any]] = {GROUPS: group_norm_backward, LABELS: multilabel_margin_loss_forward}
