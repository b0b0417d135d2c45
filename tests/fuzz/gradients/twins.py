"""burn's functions in torch, where torch has none of that name or meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

T = torch.Tensor


# ---- elements and slices ---------------------------------------------------------------------------------------------------
def stop_gradient(x: T) -> T:
    return x.detach()


def cut(x: T, *slices: Any) -> T:
    """x[slices], with steps that may be negative."""
    taken: list[Any] = []
    axis = 0
    for s in slices:
        if isinstance(s, slice) and s.step is not None and s.step < 0:
            x = x.index_select(axis, torch.arange(x.shape[axis])[range(*s.indices(x.shape[axis]))])
            taken.append(slice(None))
        else:
            taken.append(s)
        axis += s is not None
    return x[tuple(taken)]


def pad(x: T, widths: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0.0) -> T:
    """numpy's modes, an axis at a time."""
    for axis, (low, high) in enumerate(widths):
        n = x.shape[axis]
        if mode == "constant":
            flat = [0, 0] * (x.ndim - 1 - axis) + [low, high]
            x = F.pad(x, flat, value=value)
            continue
        at = torch.arange(-low, n + high)
        if mode == "edge":
            at = at.clamp(0, n - 1)
        elif mode == "wrap":
            at = at % n
        else:
            at = at.abs()
            at = (n - 1) - ((n - 1) - at).abs()
        x = x.index_select(axis, at)
    return x


def padded(x: T, low: Sequence[int], high: Sequence[int], interior: Sequence[int] = (), value: Any = 0.0) -> T:
    """`ops.pad`: the value before, after and between."""
    value = torch.as_tensor(value, dtype=x.dtype)
    for axis in range(x.ndim):
        n, step = x.shape[axis], (interior[axis] if interior else 0) + 1
        size = low[axis] + high[axis] + ((n - 1) * step + 1 if n else 0)
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        x = value.expand(shape).index_copy(axis, low[axis] + step * torch.arange(n), x)
    return x


def put(x: T, index: Any, how: str, values: Any) -> T:
    """`x.at[index].<how>(values)`."""
    every = torch.arange(x.numel()).reshape(x.shape)
    indices = every[index]
    updates = torch.as_tensor(values, dtype=x.dtype).expand(indices.shape).reshape(-1)
    flat, indices = x.reshape(-1), indices.reshape(-1)
    if how == "set":
        last = {int(p): k for k, p in enumerate(indices)}
        kept = torch.tensor(list(last.values()), dtype=torch.int64)
        return flat.index_put((indices[kept],), updates[kept]).reshape(x.shape)
    if how == "add":
        return flat.index_put((indices,), updates, accumulate=True).reshape(x.shape)
    if how == "multiply":
        for k in range(len(indices)):
            flat = flat * torch.ones_like(flat).index_put((indices[k],), updates[k])
        return flat.reshape(x.shape)
    kind = {"max": "amax", "min": "amin"}[how]
    return flat.scatter_reduce(0, indices, updates, kind).reshape(x.shape)


def running(x: T, kind: str, axis: int, exclusive: bool, reverse: bool) -> T:
    """`ops.cumulative`."""
    x = x.flip(axis) if reverse else x
    if exclusive:
        first = torch.full_like(x.narrow(axis, 0, 1), {"sum": 0.0, "prod": 1.0}[kind])
        x = torch.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    y = {"sum": torch.cumsum, "prod": torch.cumprod}[kind](x, axis)
    return y.flip(axis) if reverse else y


# ---- windows ---------------------------------------------------------------------------------------------------------------
def windows(x: T, kind: str, window: Any, strides: Any, dilations: Any, low: Any, high: Any) -> T:
    """`ops.window_reduce`."""
    x = padded(x, low, high, value={"sum": 0.0, "max": -torch.inf, "min": torch.inf}[kind])
    rank = x.ndim
    for axis in range(rank):
        reach = (window[axis] - 1) * dilations[axis] + 1
        x = x.unfold(axis, reach, strides[axis])[..., :: dilations[axis]]
    x = x.flatten(rank)
    return x.sum(-1) if kind == "sum" else x.max(-1)[0] if kind == "max" else x.min(-1)[0]


def conv(x: T, w: T, strides: Any, dilations: Any, low: Any, high: Any, groups: int = 1) -> T:
    x = padded(x, (0, 0, *low), (0, 0, *high))
    return getattr(F, f"conv{len(low)}d")(x, w, None, strides, 0, dilations, groups)


def conv_transpose(x: T, w: T, strides: Any, dilations: Any, low: Any, high: Any, extra: Any, groups: int = 1) -> T:
    y = getattr(F, f"conv_transpose{len(low)}d")(x, w, None, strides, 0, 0, groups, dilations)
    y = padded(y, (0, 0, *(0 for _ in low)), (0, 0, *extra))
    for axis, (a, b) in enumerate(zip(low, high, strict=True)):
        y = y.narrow(axis + 2, a, y.shape[axis + 2] - a - b)
    return y


# ---- attention and recurrent layers ------------------------------------------------------------------------------------------
def attention(
    q: T, k: T, v: T, mask: T | None = None, lengths: T | None = None, *,
    scale: float, causal: bool = False, softcap: float = 0.0,
) -> T:  # fmt: skip
    """`ops.attention`; a query that sees no key gives zeros."""
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scores = q @ k.transpose(-1, -2) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    s, t = scores.shape[-2:]
    allowed = torch.ones(scores.shape, dtype=torch.bool)
    where = torch.arange(s)[:, None]
    if lengths is not None:
        limit = lengths.reshape(-1, 1, 1, 1)
        allowed = allowed & (torch.arange(t) < limit)
        where = limit - s + where
    if causal:
        allowed = allowed & (torch.arange(t) <= where)
    if mask is not None and mask.dtype == torch.bool:
        allowed = allowed & mask
    elif mask is not None:
        scores = scores + mask
    scores = scores.masked_fill(~allowed, -1e30)
    p = scores.softmax(-1).masked_fill(~allowed, 0.0)
    return p @ v


def rotary(x: T, cos: T, sin: T, interleaved: bool) -> T:
    r = 2 * cos.shape[-1]
    turned, rest = x[..., :r], x[..., r:]
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    first, second = a * cos - b * sin, a * sin + b * cos
    joined = torch.stack([first, second], -1).flatten(-2) if interleaved else torch.cat([first, second], -1)
    return torch.cat([joined, rest], -1)


def recurrent(
    kind: str, x: T, w: T, r: T, b: T | None = None, h: T | None = None, c: T | None = None, *,
    direction: str = "forward", reset_after: bool = False,
) -> list[T]:  # fmt: skip
    """`ops.rnn`, `ops.gru`, `ops.lstm`: ONNX's layers, written out."""
    hidden, batch, ways = r.shape[-1], x.shape[1], w.shape[0]
    outputs, hs, cs = [], [], []
    for way in range(ways):
        backwards = direction == "reverse" or way == 1
        state = torch.zeros(batch, hidden, dtype=x.dtype) if h is None else h[way]
        cell = torch.zeros(batch, hidden, dtype=x.dtype) if c is None else c[way]
        wb, rb = (0.0, 0.0) if b is None else b[way].chunk(2)
        rbn = 0.0 if b is None else b[way].chunk(2)[1][2 * hidden :]
        rows = []
        for time in reversed(range(len(x))) if backwards else range(len(x)):
            given, back = x[time] @ w[way].T + wb, state @ r[way].T + rb
            if kind == "rnn":
                state = torch.tanh(given + back)
            elif kind == "gru":
                z, reset = (
                    torch.sigmoid(p + q) for p, q in zip(given.chunk(3, 1)[:2], back.chunk(3, 1)[:2], strict=True)
                )
                last = r[way][2 * hidden :]
                inner = reset * (state @ last.T + rbn) if reset_after else (reset * state) @ last.T + rbn
                state = (1 - z) * torch.tanh(given.chunk(3, 1)[2] + inner) + z * state
            else:
                i, o, f, g = (given + back).chunk(4, 1)
                cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
                state = torch.sigmoid(o) * torch.tanh(cell)
            rows.append(state)
        outputs.append(torch.stack(rows[::-1] if backwards else rows))
        hs.append(state)
        cs.append(cell)
    every = [torch.stack(outputs, 1), torch.stack(hs)]
    return [*every, torch.stack(cs)] if kind == "lstm" else every


# ---- control flow ------------------------------------------------------------------------------------------------------------
def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def cond(condition: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    return (then if bool(condition) else otherwise)(*operands)


def while_loop(condition: Callable[..., Any], body: Callable[..., Any], init: Any) -> Any:
    state = init
    while bool(condition(state)):
        state = body(state)
    return state


def fori_loop(start: int, stop: Any, body: Callable[..., Any], init: Any) -> Any:
    state = init
    for k in range(start, int(stop)):
        state = body(torch.tensor(k), state)
    return state


def scan(body: Callable[..., Any], init: Any, xs: Any) -> tuple[Any, Any]:
    carry, rows = init, []
    many = isinstance(xs, tuple)
    for k in range(len(xs[0] if many else xs)):
        carry, y = body(carry, tuple(x[k] for x in xs) if many else xs[k])
        rows.append(y)
    return carry, torch.stack(rows)


def loop(body: Callable[..., Any], carried: Sequence[Any], *, trips: int, scans: int = 0) -> tuple[Any, ...]:
    rows: list[Any] = []
    state = tuple(carried)
    for k in range(trips):
        going, *given = body(torch.tensor(k), torch.tensor(True), *state)
        state = tuple(given[: len(state)])
        rows.append(given[len(state) :])
        if not bool(going):
            break
    return (*state, *(torch.stack(list(column)) for column in zip(*rows, strict=True)))


def binary_cross_entropy(x: T, target: T, reduction: str) -> T:
    """torch's own second derivative adds 1e-12 to what it divides by, which float64 shows."""
    logs = (x.log().clamp(min=-100.0), torch.log1p(-x).clamp(min=-100.0))
    loss = -(target * logs[0] + (1 - target) * logs[1])
    return {"mean": loss.mean, "sum": loss.sum, "none": lambda: loss}[reduction]()


def own(function: Callable[..., Any], backward: Callable[..., Any], *args: T) -> T:
    """A function with a derivative of its own."""

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: T) -> T:
            ctx.save_for_backward(*given)
            return function(*given).clone()

        @staticmethod
        def backward(ctx: Any, g: T) -> Any:
            return backward(ctx.saved_tensors, g)

    return Own.apply(*args)


def derivative(function: Callable[..., T], x: T) -> T:
    """burn.grad(function)(x), which can be differentiated."""
    with torch.enable_grad():
        own = x if x.requires_grad else x.detach().requires_grad_()
        inner = own * 1.0
        (found,) = torch.autograd.grad(
            function(inner), inner, create_graph=True, allow_unused=True, materialize_grads=True
        )
    return found if x.requires_grad or torch.is_grad_enabled() else found.detach()
