"""Decides if rounding alone explains a difference: runs eager torch again, with a little noise after every operator that rounds.

A comparison with float64 gives torch's own error, which says nothing if torch happens to be exact. For example, the derivatives
of a softmax over one key are 0, and another formula computes them as the difference of two equal numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tests.fuzz.tensors.shared import words

SPREAD = 2.0**-22

MOVES = frozenset(
    words(
        "cat stack index index_select index_put gather scatter take where masked_fill clone copy _to_copy floor ceil round"
        " trunc sign sgn neg abs relu hardtanh clamp clamp_min clamp_max maximum minimum max min amax amin sort topk kthvalue"
        " median mode cummax cummin max_pool2d_with_indices max_pool3d_with_indices constant_pad_nd reflection_pad1d"
        " reflection_pad2d flip roll repeat_interleave tril triu unfold zeros ones full zeros_like ones_like full_like"
        " new_zeros new_ones new_full empty empty_like new_empty arange scalar_tensor lift_fresh slice_scatter"
        " select_scatter slice_backward select_backward"
    )
)
"""Operators that move, choose or make numbers: no rounding of their own."""


class Noise(TorchDispatchMode):
    """Multiplies every float result, also in the backward pass, by a factor near 1, another one at each trial."""

    def __init__(self, trial: int) -> None:
        super().__init__()
        self._draw = torch.Generator().manual_seed(trial)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view or func._schema.is_mutable or func._schema.name.removeprefix("aten::") in MOVES:
            return result
        return tree_map(self._moved, result)

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        return value * (1 + SPREAD * (2 * torch.rand(value.shape, generator=self._draw) - 1))
