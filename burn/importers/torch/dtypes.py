"""torch's element types and tensors in burn's terms: names, and views of their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from burn.dialect.types import DTYPES, numpy_dtype
from burn.dialect.weights import Weight
from burn.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = {getattr(torch, name): name for name in DTYPES if isinstance(getattr(torch, name, None), torch.dtype)}
_BITS = {1: torch.uint8, 2: torch.uint16}
"""An unsigned type of each width, to carry the types that numpy lacks."""


def dtype_name(dtype: torch.dtype) -> str:
    """burn's name of a torch type. Raises ModelError where there is none (quantised types)."""
    if dtype not in _NAMES:
        raise ModelError("unsupported element type", [f"{dtype} is not one of burn's"])
    return _NAMES[dtype]


def torch_dtype(name: str) -> torch.dtype:
    return getattr(torch, name)


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's own memory as an array, strides and all; nothing is copied. Raises ModelError for one that has none in
    this process's memory as plain numbers (another device, sparse, quantised)."""
    problems = _unfit(tensor)
    if problems:
        raise ModelError("a tensor cannot be read", problems)
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    name = dtype_name(tensor.dtype)
    if np.dtype(DTYPES[name].numpy if hasattr(np, DTYPES[name].numpy) else "V1").kind == "V":
        return tensor.view(_BITS[DTYPES[name].size]).numpy().view(numpy_dtype(name))
    return tensor.numpy()


def _unfit(tensor: torch.Tensor) -> Iterable[str]:
    if tensor.device.type != "cpu":
        return [f"it lies on {tensor.device}; copy it to the CPU"]
    if tensor.layout is not torch.strided:
        return [f"its layout is {tensor.layout}, only dense tensors can be used; see Tensor.to_dense"]
    return []


def to_tensor(array: np.ndarray) -> torch.Tensor:
    """An output's memory as a tensor, without a copy."""
    if array.dtype.kind == "V" or array.dtype.name not in _PLAIN:
        dtype = getattr(torch, array.dtype.name)
        return torch.from_numpy(array.view(f"uint{8 * array.dtype.itemsize}")).view(dtype)
    return torch.from_numpy(array)


_PLAIN = {name for name in DTYPES if hasattr(np, name) or name == "bool"}


def to_weight(tensor: torch.Tensor) -> Weight:
    """A constant over the tensor's own memory; one that is not contiguous is copied in row-major order."""
    array = to_array(tensor)
    return Weight(dtype_name(tensor.dtype), tuple(array.shape), np.ascontiguousarray(array).reshape(array.shape))
