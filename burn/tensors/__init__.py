"""`Tensor` and what becomes one. `tensor.py` is the class; its methods are in a file for each family."""

from __future__ import annotations

from burn.tensors.lifting import Operand, constant, from_numpy, lift, rounded
from burn.tensors.sizes import Dim, Size
from burn.tensors.tensor import Tensor

tensor = constant
"""The name that people know; imported models say `constant`."""

__all__ = ["Dim", "Operand", "Size", "Tensor", "constant", "from_numpy", "lift", "rounded", "tensor"]
