"""Cells of recurrent networks as torch computes them on CUDA tensors, written here in torch's operators. Enter at `FUSED_CELLS`.

On a CPU `lstm_cell` and `gru_cell` decompose to pointwise operators. On a GPU each is one operator with a gradient of its own,
which reads a workspace [batch, values * hidden] of the forward pass. All is computed in float32 for half precision, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def lstm_cell(
    of_x: Tensor, of_h: Tensor, c: Tensor, bias_x: Tensor | None = None, bias_h: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The next h and c [batch, hidden], and as workspace the gates i, f, g, o after their activations. of_x and of_h: the
    contractions of x and h with the weights, [batch, 4 * hidden]."""
    i, f, g, o = _summed(of_x, of_h, bias_x, bias_h).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * _wide(c) + i * g
    return (o * new.tanh()).to(c.dtype), new.to(c.dtype), torch.cat([i, f, g, o], 1).to(of_x.dtype)


def lstm_cell_backward(
    grad_h: Tensor | None, grad_c: Tensor | None, c: Tensor, new: Tensor, workspace: Tensor, biased: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of the gates, of c and of a bias. new: the next c."""
    if grad_h is None and grad_c is None:
        return None, None, None
    i, f, g, o = _wide(workspace).chunk(4, 1)
    bounded = _wide(new).tanh()
    of_h = torch.zeros_like(bounded) if grad_h is None else _wide(grad_h)
    of_new = of_h * o * (1 - bounded * bounded)
    if grad_c is not None:
        of_new = of_new + _wide(grad_c)
    gates = [
        of_new * g * _of_sigmoid(i),
        of_new * _wide(c) * _of_sigmoid(f),
        of_new * i * (1 - g * g),
        of_h * bounded * _of_sigmoid(o),
    ]
    grads = torch.cat(gates, 1).to(workspace.dtype)
    return grads, (of_new * f).to(c.dtype), grads.sum(0) if biased else None


def gru_cell(
    of_x: Tensor, of_h: Tensor, h: Tensor, bias_x: Tensor | None = None, bias_h: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The next h [batch, hidden]. The workspace has the gates r, z and n after their activations, h, and h's share of n."""
    xs, hs = (_wide(x).chunk(3, 1) for x in (of_x, of_h))
    if bias_x is not None and bias_h is not None:
        xs, hs = (
            [x + b for x, b in zip(values, _wide(bias).chunk(3), strict=True)]
            for values, bias in ((xs, bias_x), (hs, bias_h))
        )
    r, z = (xs[0] + hs[0]).sigmoid(), (xs[1] + hs[1]).sigmoid()
    n, old = (xs[2] + r * hs[2]).tanh(), _wide(h)
    return (n + z * (old - n)).to(h.dtype), torch.cat([r, z, n, old, hs[2]], 1).to(of_x.dtype)


def gru_cell_backward(
    grad_h: Tensor, workspace: Tensor, biased: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """The gradients of the contractions of x and of h, of h, and of their biases."""
    r, z, n, old, share = _wide(workspace).chunk(5, 1)
    grad = _wide(grad_h)
    of_n = grad * (1 - z) * (1 - n * n)
    of_r, of_z = of_n * share * _of_sigmoid(r), grad * (old - n) * _of_sigmoid(z)
    of_x = torch.cat([of_r, of_z, of_n], 1).to(workspace.dtype)
    of_h = torch.cat([of_r, of_z, of_n * r], 1).to(workspace.dtype)
    of_biases = (of_x.sum(0), of_h.sum(0)) if biased else (None, None)
    return of_x, of_h, (grad * z).to(grad_h.dtype), of_biases[0], of_biases[1]


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _of_sigmoid(y: Tensor) -> Tensor:
    return y * (1 - y)


def _summed(of_x: Tensor, of_h: Tensor, bias_x: Tensor | None, bias_h: Tensor | None) -> Tensor:
    gates = _wide(of_x) + _wide(of_h)
    return gates if bias_x is None or bias_h is None else gates + _wide(bias_x) + _wide(bias_h)


FUSED_CELLS: dict[Any, Callable[..., Any]] = {
    aten._thnn_fused_lstm_cell.default: lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: gru_cell,
    aten._thnn_fused_gru_cell_backward.default: gru_cell_backward,
}
"""Operator -> the function that replaces it."""
