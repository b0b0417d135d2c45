"""The meaning of `m` in a program's text: burn or torch, with shared helpers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import burn
from tests.fuzz.gradients import twins


class Burn:
    """burn, with constants and functions with derivatives of their own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(burn, name)

    @staticmethod
    def const(values: Any, dtype: str | None = None) -> Any:
        return burn.constant(np.array(values)) if dtype is None else burn.constant(np.array(values), dtype)

    @staticmethod
    def own(function: Callable[..., Any], backward: Callable[..., Any], *args: Any) -> Any:
        """function(*args), whose derivative is `backward((args), cotangent)`, a tuple."""
        own = burn.custom_vjp(function)
        own.defvjp(lambda *a: (function(*a), a), backward)
        return own(*args)

    @staticmethod
    def derivative(function: Callable[..., Any], x: Any) -> Any:
        return burn.grad(function)(x)

    @staticmethod
    def cut(x: Any, *slices: Any) -> Any:
        return x[slices]

    @staticmethod
    def cast(x: Any, dtype: str) -> Any:
        return x.astype(dtype)


class Torch:
    """torch in float64, with burn's functions that it lacks (`twins.py`)."""

    def __getattr__(self, name: str) -> Any:
        return getattr(twins, name, None) or getattr(torch, name)

    @staticmethod
    def const(values: Any, dtype: str | None = None) -> torch.Tensor:
        array = np.array(values)
        return torch.tensor(array, dtype=torch.float64 if array.dtype.kind == "f" else None)

    @staticmethod
    def cast(x: torch.Tensor, dtype: str) -> torch.Tensor:
        return x.double() if "float" in dtype else x.to(getattr(torch, dtype))


def scope(side: str) -> dict[str, Any]:
    if side == "burn":
        return {"m": Burn(), "burn": burn, "nn": burn.nn, "ops": burn.ops, "np": np}
    return {"m": Torch(), "torch": torch, "F": torch.nn.functional, "t": twins, "np": np}
