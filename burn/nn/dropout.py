"""Noise for training: dropout and its variants. For inference each is the identity.

A layer in training mode draws from the process's generator (`burn.manual_seed`), or uses the given `key`. In a
compiled function every call draws new numbers.
"""

from __future__ import annotations

from typing import Any

from burn import ops, random
from burn.nn.checks import Epsilon, Probability
from burn.nn.module import Layer
from burn.nn.spatial import Spatial
from burn.tensors import Tensor


def drop(x: Tensor, p: float, shape: tuple[Any, ...], key: Tensor | None) -> Tensor:
    """x with elements (of a mask of `shape`, which broadcasts to x) zeroed with probability p, the others times 1 / (1 - p)."""
    if p == 1.0:
        return x * 0.0
    key = random.next_key() if key is None else key
    return ops.select(ops.random_kept(key, shape=shape, rate=p), x * (1.0 / (1.0 - p)), 0.0)


class Dropout(Layer):
    """In training each element becomes 0 with probability p, and the others are scaled by 1 / (1 - p) (arXiv:1207.0580); the
    identity otherwise. Shapes: x [...], key uint32[2] -> [...]."""

    def __init__(self, p: Probability = 0.5) -> None:
        self.p = p

    def forward(self, x: Tensor, key: Tensor | None = None) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        return drop(x, self.p, x.shape, key)

    def extra_repr(self) -> str:
        return str(self.p)


class _ChannelDropout(Spatial, Dropout):
    """In training each channel of each sample becomes 0 with probability p, and the others are scaled by 1 / (1 - p)
    (arXiv:1411.4280). Shapes: x [N, C, d..] -> the same."""

    def forward(self, x: Tensor, key: Tensor | None = None) -> Tensor:
        self._check(x)
        if not self.training or self.p == 0.0:
            return x
        shape = (*x.shape[:2], *[1] * self.AXES)
        return drop(x, self.p, shape, key)


class Dropout1d(_ChannelDropout):
    __doc__ = _ChannelDropout.__doc__
    AXES = 1


class Dropout2d(_ChannelDropout):
    __doc__ = _ChannelDropout.__doc__
    AXES = 2


class Dropout3d(_ChannelDropout):
    __doc__ = _ChannelDropout.__doc__
    AXES = 3


class GaussianNoise(Layer):
    """In training, normally distributed noise of this standard deviation is added. Shapes: x [...] -> [...]."""

    def __init__(self, std: Epsilon) -> None:
        self.std = std

    def forward(self, x: Tensor, key: Tensor | None = None) -> Tensor:
        if not self.training or self.std == 0.0:
            return x
        return x + random.normal(x.shape, key=key, dtype=x.dtype) * float(self.std)

    def extra_repr(self) -> str:
        return str(self.std)
