"""Gradients that torch neither decomposes nor composes of other operators, written here in torch's operators. Enter at
`GRADIENTS`.

AOTAutograd traces these functions instead of the operators, so they support second derivatives and dynamic sizes.
Gradients that are closer to burn's ops than to torch's (convolutions, average pools, resampling) are in `ops/backward.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product as each_of
from math import prod
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


# ---- pools and paddings -------------------------------------------------------------------------------------------------
def maximum_pool(axes: int, grad: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    """The gradient of every window goes to its largest element, whose flat index in the image is given."""
    at = indices.flatten(-axes)
    zeros = grad.new_zeros((*x.shape[:-axes], prod(x.shape[-axes:])))
    return zeros.scatter_add(-1, at, grad.flatten(-axes)).reshape(x.shape)


def replication_pad(grad: Tensor, x: Tensor, padding: Sequence[Any]) -> Tensor:
    """Sums the gradients of repeated border elements."""
    for i in range(len(padding) // 2):
        axis = grad.dim() - 1 - i
        size = x.shape[axis]
        at = (torch.arange(grad.shape[axis], device=grad.device) - padding[2 * i]).clamp(0, size - 1)
        zeros = grad.new_zeros((*grad.shape[:axis], size, *grad.shape[axis + 1 :]))
        grad = zeros.index_add(axis, at, grad)
    return grad


# ---- distances ----------------------------------------------------------------------------------------------------------
def _slope(apart: Tensor, distance: Tensor, p: float) -> Tensor:
    """The gradient of a distance by each coordinate's difference; 0 where two points are the same."""
    if p == 0:
        return torch.zeros_like(apart)
    if p == 1:
        return apart.sign()
    if p == float("inf"):
        return apart.sign() * (apart.abs() == distance)
    size = torch.where(apart == 0, 1, apart.abs()).pow(p - 1)
    slope = apart.sign() * size / torch.where(distance == 0, 1, distance).pow(p - 1)
    return torch.where(distance == 0, 0, slope)


def cdist(grad: Tensor, x: Tensor, y: Tensor, p: float, distance: Tensor) -> Tensor:
    apart = x.unsqueeze(-2) - y.unsqueeze(-3)
    return (_slope(apart, distance.unsqueeze(-1), p) * grad.unsqueeze(-1)).sum(-2)


def pdist(grad: Tensor, x: Tensor, p: float, distance: Tensor) -> Tensor:
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    shares = _slope(x[first] - x[second], distance.unsqueeze(-1), p) * grad.unsqueeze(-1)
    return torch.zeros_like(x).index_add(0, first, shares).index_add(0, second, -shares)


# ---- bags of embeddings -------------------------------------------------------------------------------------------------
SUM, MEAN, MAX = range(3)


def _bag_of(indices: Tensor, offsets: Tensor) -> Tensor:
    """The bag of each index: how many bags have begun."""
    begun = offsets.new_zeros(indices.shape[0] + 1).index_add(0, offsets, torch.ones_like(offsets))
    return begun[: indices.shape[0]].cumsum(0) - 1


def embedding_bag(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """Recomputes torch's map from indices to bags, which its forward pass may omit."""
    zeros = grad.new_zeros((num_weights, grad.shape[1]))
    bag = _bag_of(indices, offsets)
    counted = (indices != padding_idx).to(grad.dtype)
    size = grad.new_zeros(grad.shape[0]).index_add(0, bag, counted)
    if mode == MAX:
        return zeros.scatter_add(0, maximum_indices.long(), grad * (size > 0).unsqueeze(-1))
    share = counted
    if mode == MEAN:
        share = share / size.clamp(min=1)[bag]
    if per_sample_weights is not None:
        share = share * per_sample_weights
    if scale_grad_by_freq:
        share = share / grad.new_zeros(num_weights).index_add(0, indices, torch.ones_like(share))[indices]
    return zeros.index_add(0, indices, grad[bag] * share.unsqueeze(-1))


def per_sample_weights(
    grad: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    share = (grad[_bag_of(indices, offsets)] * weight[indices]).sum(1)
    return torch.where(indices == padding_idx, 0, share)


# ---- images sampled between their elements ------------------------------------------------------------------------------
LINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
CUBIC_A = -0.75

Taps = list[tuple[Tensor, Tensor, Tensor]]
"""Samples along one axis: the index, its weight, and the derivative of the weight with respect to the coordinate."""


def grid_sampler(
    grad: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, align: bool, wanted: Sequence[bool]
) -> tuple[Tensor | None, Tensor]:
    """The gradients of images x [n, c, sizes..] and of a grid [n, points.., axes]."""
    sizes = x.shape[2:]
    axes = len(sizes)
    values, shares = x.flatten(2), grad.flatten(2)
    rows = [_taps(grid[..., axes - 1 - i].flatten(1), sizes[i], mode, padding, align) for i in range(axes)]
    image = torch.zeros_like(values)
    slopes = [torch.zeros_like(rows[0][0][1]) for _ in sizes]
    for taps in each_of(*rows):
        inside, index = torch.ones_like(taps[0][0], dtype=torch.bool), torch.zeros_like(taps[0][0], dtype=torch.int64)
        for size, (row, _, _) in zip(sizes, taps, strict=True):
            here = (row >= 0) & (row <= size - 1)
            inside = inside & here
            index = index * size + torch.where(here, row, 0).long()
        index = torch.where(inside, index, 0).unsqueeze(1).expand(shares.shape)
        used = torch.where(inside.unsqueeze(1), shares, 0)
        image = image.scatter_add(2, index, used * prod(weight for _, weight, _ in taps).unsqueeze(1))  # type: ignore[union-attr]
        read = (used * values.gather(2, index)).sum(1)
        for i in range(axes):
            slopes[i] = slopes[i] + read * prod(t[2] if i == j else t[1] for j, t in enumerate(taps))
    turned = torch.stack(slopes[::-1], -1).reshape(grid.shape)
    return image.reshape(x.shape) if wanted[0] else None, turned


def _taps(coordinate: Tensor, size: Any, mode: int, padding: int, align: bool) -> Taps:
    scale = (size - 1) / 2 if align else size / 2
    index = coordinate * scale + (size - 1) / 2
    slope = torch.full_like(index, scale)
    if mode != CUBIC:
        index, turn = _padded(index, size, padding, align)
        slope = slope * turn
    if mode == NEAREST:
        return [(index.round(), torch.ones_like(index), torch.zeros_like(index))]
    low = index.floor()
    t = index - low
    if mode == LINEAR:
        return [(low, 1 - t, -slope), (low + 1, t, slope)]
    taps = []
    for step in range(-1, 3):
        weight, change = _cubic((t - step).abs())
        row, _ = _padded(low + step, size, padding, align)
        taps.append((row.round(), weight, change * (t - step).sign() * slope))
    return taps


def _cubic(d: Tensor) -> tuple[Tensor, Tensor]:
    """The cubic weight at a distance of at most 2, and its derivative."""
    a = CUBIC_A
    near = ((a + 2) * d - (a + 3)) * d * d + 1, (3 * (a + 2) * d - 2 * (a + 3)) * d
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, (3 * a * d - 10 * a) * d + 8 * a
    return torch.where(d <= 1, near[0], far[0]), torch.where(d <= 1, near[1], far[1])


def _padded(index: Tensor, size: Any, padding: int, align: bool) -> tuple[Tensor, Tensor]:
    """Indices after padding, and the derivative of a padded index: 1, 0, or -1 if reflected."""
    turn = torch.ones_like(index)
    if padding == ZEROS:
        return index, turn
    if padding == REFLECTION:
        first, span = (0, size - 1) if align else (-0.5, size)
        if span == 0:
            return torch.zeros_like(index), torch.zeros_like(index)
        away = index - first
        turn = torch.where(away < 0, -turn, turn)
        away = away.abs()
        odd = (away / span).floor() % 2 == 1
        extra = away - (away / span).floor() * span
        index = torch.where(odd, span - extra, extra) + first
        turn = torch.where(odd, -turn, turn)
    turn = torch.where((index <= 0) | (index >= size - 1), 0, turn)
    return index.clamp(0, size - 1), turn


# ---- parametrised weights -----------------------------------------------------------------------------------------------
def weight_norm(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Of w = g v / |v|, where |v| is taken over every axis but one."""
    others = [i for i in range(v.dim()) if i != axis]
    along = (grad * v).sum(others, keepdim=True) / norms
    return g / norms * (grad - v * along / norms), along


GRADIENTS: dict[Any, Callable[..., Any]] = {
    aten.adaptive_max_pool2d_backward.default: partial(maximum_pool, 2),
    aten.adaptive_max_pool3d_backward.default: partial(maximum_pool, 3),
    **{getattr(aten, f"replication_pad{n}d_backward").default: replication_pad for n in (1, 2, 3)},
    aten._weight_norm_interface_backward.default: weight_norm,
    aten._cdist_backward.default: cdist,
    aten._pdist_backward.default: pdist,
    aten._embedding_bag_backward.default: embedding_bag,
    aten._embedding_bag_per_sample_weights_backward.default: per_sample_weights,
    aten.grid_sampler_2d_backward.default: grid_sampler,
    aten.grid_sampler_3d_backward.default: grid_sampler,
}
"""Operator -> the function that replaces it."""
