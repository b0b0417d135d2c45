"""The rounding error that float32 may have in a model: the model in float64, with relative noise behind every operator.

A network with batch statistics over two examples, or with a chaotic gradient, multiplies the rounding of one operator by
thousands. The error of a float32 run of such a model is compared with the change that this noise causes in float64.
Enter at `with_noise`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

UNIT = 2.0**-24
"""Half a unit in the last place of float32."""
ROUNDINGS = 4.0
"""The noise in units: an operator such as a sum or a softmax rounds more than once."""


class with_noise(TorchDispatchMode):
    """Within it, every operator's floating results are multiplied by 1 + ROUNDINGS * UNIT * a standard normal draw. Views and
    in-place writes are left alone."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        schema = func._schema
        exact = schema.is_mutable or any(r.alias_info is not None for r in schema.returns) or not schema.arguments
        return found if exact else tree_map(self._noisy, found)

    def _noisy(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64 or not value.numel():
            return value
        noise = torch.randn(value.shape, generator=self._generator, dtype=torch.float64)
        return value * (1 + ROUNDINGS * UNIT * noise)
