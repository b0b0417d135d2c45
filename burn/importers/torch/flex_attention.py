"""`torch.nn.attention.flex_attention` written out in torch's operators. Enter at `expand_flex_attention` for Dynamo's graphs,
and at `flex_attention` for one call.

torch keeps the call as one higher-order operator. Its kernel calls a function of a single score and its position. Here
`torch.vmap` maps the function over all scores. The derivatives are autograd's, also those of tensors that the function captures.
Block masks name blocks that a kernel may skip; the mask itself is their function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

NAME = "flex_attention"
AXES = 4
"""Of scores: batch, query heads, queries, keys."""


def expand_flex_attention(graph: fx.GraphModule) -> None:
    """Replaces the calls in a graph of Dynamo's."""
    higher_order = torch._ops.HigherOrderOperator
    calls = [n for n in graph.graph.nodes if isinstance(n.target, higher_order) and n.target.name() == NAME]
    for node in calls:
        node.target = flex_attention
    if calls:
        graph.recompile()


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Callable[..., Tensor],
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: Any,
    score_tensors: Sequence[Any] = (),
    mask_tensors: Sequence[Any] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """The operands of torch's operator. Returns the result [batch, query heads, queries, depth of values]. Then the
    logarithms of the sums of exponentials and the largest scores, both [batch, query heads, queries] and divided by ln 2.

    Rows without keys are 0, and their logarithms are minus infinity."""
    heads = query.shape[1]
    key, value = (repeated_heads(x.expand(query.shape[0], *x.shape[1:]), heads) for x in (key, value))
    wide = torch.float64 if query.dtype is torch.float64 else torch.float32
    scores = wide_matmul(query, key.mT).to(wide) * scale
    positions = [torch.arange(n, device=query.device) for n in scores.shape]
    scores = _mapped(score, (0,), len(score_tensors))(scores, *positions, *score_tensors)
    shown = _mapped(block_mask[-1], (), len(mask_tensors))(*positions, *mask_tensors)
    scores = torch.where(shown, scores.to(wide), -torch.inf)
    empty = (scores == -torch.inf).all(-1)
    logarithms = torch.where(empty, -torch.inf, torch.where(empty.unsqueeze(-1), 0, scores).logsumexp(-1))
    probabilities = torch.ops.aten._safe_softmax(scores, -1)
    result = torch.matmul(probabilities.to(query.dtype), value)
    return in_order(result, order_of(query.stride())), logarithms / math.log(2), scores.amax(-1) / math.log(2)


def _mapped(function: Callable[..., Tensor], before: tuple[int, ...], captured: int) -> Callable[..., Tensor]:
    """A function of single positions as one of vectors of positions: [batch], [heads], [queries], [keys] -> all four axes.

    before: the mapped axes of operands before the positions; captured: the number of operands behind them, which stay whole."""
    for axis in reversed(range(AXES)):
        own = tuple(0 if i == axis else None for i in range(AXES))
        function = torch.vmap(function, in_dims=(*before, *own, *(None,) * captured))

    def call(*operands: Any) -> Tensor:
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

        with TransformGetItemToIndex():  # an index is a tensor that vmap maps, not a number
            return function(*operands)

    return call


# ---- parts that other kinds of attention share ---------------------------------------------------------------------------
def wide_matmul(a: Tensor, b: Tensor) -> Tensor:
    """a b [batch, heads, m, n], of half-precision operands in float32."""
    if a.dtype not in (torch.float16, torch.bfloat16):
        return torch.matmul(a, b)
    flat = [x.reshape(-1, *x.shape[2:]) for x in (a, b)]
    return torch.ops.aten.bmm.dtype(*flat, torch.float32).reshape(*a.shape[:3], b.shape[3])


def repeated_heads(x: Tensor, heads: Any) -> Tensor:
    """Each key head as often as query heads share it."""
    batch, own, *rest = x.shape
    return x.unsqueeze(2).expand(batch, own, heads // own, *rest).reshape(batch, heads, *rest)


def order_of(strides: Sequence[Any]) -> list[int]:
    """Axes from the largest stride to the smallest. Sizes that vary count as in the example, as comparisons would be traced."""
    hints = [n.node.hint if isinstance(n, torch.SymInt) else n for n in strides]
    return sorted(range(len(hints)), key=lambda axis: -(hints[axis] or 0))


def in_order(x: Tensor, order: Sequence[int]) -> Tensor:
    """x with its axes in memory in this order."""
    if order_of(x.stride()) == list(order):
        return x
    inverse = sorted(range(x.dim()), key=order.__getitem__)
    return x.permute(*order).contiguous().permute(inverse)
