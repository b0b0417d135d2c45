"""`Tensor` and the conversions to it. `tensor.py` has the class; each family of methods has its own file."""

from __future__ import annotations

from burn.tensors.promotion import Operand, constant, from_numpy, lift, rounded
from burn.tensors.sizes import Dim, Size
from burn.tensors.tensor import Tensor

tensor = constant
"""The usual name; imported models use `constant`."""

__all__ = ["Dim", "Operand", "Size", "Tensor", "constant", "from_numpy", "lift", "rounded", "tensor"]
