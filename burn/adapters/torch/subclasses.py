"""Arguments of compiled graphs that are of a plain subclass of `torch.Tensor`: `to_plain`.

AOTAutograd expands subclasses that define `__torch_dispatch__`, and passes the others unchanged. It runs the first call of a
graph under a dispatch mode. Under a mode, torch refuses each operator whose operand is of such a subclass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

_DISPATCH = "__torch_dispatch__"
USUAL = (torch.Tensor, torch.nn.Parameter)


def to_plain(arguments: list[Any]) -> None:
    """Replaces such arguments by tensors of the same storage. The graph's caller restores the classes of results."""
    for i, value in enumerate(arguments):
        if type(value) not in USUAL and _is_plain_subclass(value):
            with _disable_current_modes(), torch._C.DisableTorchFunctionSubclass():
                arguments[i] = value.as_subclass(torch.Tensor)


def _is_plain_subclass(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and getattr(type(value), _DISPATCH) is getattr(torch.Tensor, _DISPATCH)
