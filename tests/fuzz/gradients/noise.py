"""The effect of rounding on a program's derivatives: torch in float64, with noise of the program's precision in every
operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tests.fuzz.torch.noise import MOVES

UNIT = {"float64": 4e-16, "float32": 2.4e-7, "float16": 2e-3, "bfloat16": 8e-3}
"""Twice the distance of neighbours, relative."""
LEAST = {"float64": 0.0, "float32": 1e-38, "float16": 6e-8, "bfloat16": 1e-38}
"""The smallest number: what is smaller is lost."""
BITS = {"float64": 20, "float32": 12, "float16": 5, "bfloat16": 3}
"""Multiples of 2^-bits below 2^bits are exact wherever they come from."""
GREATEST = {"float64": 1e300, "float32": 1e37, "float16": 3e4, "bfloat16": 1e37}


class Rounding(TorchDispatchMode):
    """Multiplies every float operand and result of an operator by a random factor near 1, also in the backward pass.

    Exempt are operators that only move or choose elements, and exact numbers. overflowed: a number exceeds the type."""

    def __init__(self, trial: int, dtype: str, scale: float = 1.0) -> None:
        super().__init__()
        self._draw = torch.Generator().manual_seed(trial)
        self._unit, self._least = UNIT[dtype] * scale, LEAST[dtype] * scale
        self._grid, self._greatest = 2.0 ** BITS[dtype], GREATEST[dtype]
        self.overflowed = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func.is_view or func._schema.is_mutable or func._schema.name.removeprefix("aten::") in MOVES:
            return func(*args, **(kwargs or {}))
        return tree_map(self._moved, func(*tree_map(self._moved, tuple(args)), **(kwargs or {})))

    def _moved(self, value: Any) -> Any:
        if (
            not isinstance(value, torch.Tensor)
            or value.dtype != torch.float64
            or not value.numel()
            or value.is_meta
            or value._is_zerotensor()
        ):
            return value
        self.overflowed |= bool((value.abs() > self._greatest).any())
        uniform = 2 * torch.rand(value.shape, generator=self._draw, dtype=torch.float64) - 1
        exact = ((value * self._grid).frac() == 0) & (value.abs() < self._grid)
        return torch.where(exact, value, value * (1 + self._unit * uniform) + self._least * uniform)
