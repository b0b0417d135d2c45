"""The decompositions that torch runs before the import: all that it has, except for operators with a builder.

Operators that burn has as ops (attention, norms, convolutions, activations ...) stay whole, because there are kernels and
patterns for them. Rare operators are decomposed. With this one rule a new builder needs no second entry elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._prims_common import suggest_memory_format

from burn.importers.torch.complexes import COMPLEX
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
    return {**table, **elementwise, **{op: with_eager_strides(op) for op in MISTAKEN}}


def _registered() -> dict[Any, Callable[..., Any]]:
    """Decompositions of operators that have no builder: torch's, those that it lacks, and some with its mistakes mended."""
    return {
        op: function
        for op, function in (*decomposition_table.items(), *GRADIENTS.items(), *MENDED.items())
        if isinstance(op, torch._ops.OpOverload) and not _is_whole(op)
    }


def _is_whole(op: Any) -> bool:
    """True if there is a builder. torch's decompositions of `complex` and `polar` write to views of an empty tensor, which
    AOTAutograd's functional graphs must not do."""
    return str(op) in BUILDERS or str(op) in COMPLEX


# ---- torch's, whose mistakes in some versions are known --------------------------------------------------------------------
GROUPS = torch.ops.aten.native_group_norm_backward.default


def group_norm_backward(grad: Tensor, x: Tensor, *rest: Any) -> Any:
    """torch's decomposition divides by the elements of a group for the gradient of x, and a group may be empty."""
    *facts, (of_x, *others) = rest
    some = x.numel() != 0
    share, *shares = decomposition_table[GROUPS](grad, x, *facts, [of_x and some, *others])
    return (share if some or not of_x else torch.zeros_like(x), *shares)


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


MENDED: dict[Any, Callable[..., Any]] = {GROUPS: group_norm_backward}
