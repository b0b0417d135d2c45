"""Sequence layers against torch's: rows of the table in `torch_table.py`. Layers that torch lacks are written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burn import nn
from tests.nn.torch_table import LAYERS, Draw, Drawn, layer

torch = pytest.importorskip("torch")
F = torch.nn.functional

# ---- recurrent ---------------------------------------------------------------------------------------------------------


def _stacked(kind: str) -> Callable[[Draw], Drawn]:
    def row(draw: Draw) -> Drawn:
        inputs, hidden, layers = draw.size(1, 5), draw.size(1, 5), draw.size(1, 3)
        options = {"bias": draw.flag(), "batch_first": draw.flag(), "bidirectional": draw.flag()}
        if kind == "RNN":
            options["nonlinearity"] = draw.one_of("tanh", "relu")
        theirs = getattr(torch.nn, kind)(inputs, hidden, layers, **options)
        ours = getattr(nn, f"Stacked{kind}")(inputs, hidden, layers, **options)
        batch, steps = draw.size(1, 3), draw.one_of(1, 5, 11)
        x = draw.normal(*((batch, steps) if options["batch_first"] else (steps, batch)), inputs)
        states = [
            draw.normal(layers * (1 + options["bidirectional"]), batch, hidden) for _ in range(1 + (kind == "LSTM"))
        ]
        if not draw.flag():
            return Drawn(ours, theirs, [x], batch_axis=0 if options["batch_first"] else None)
        if kind != "LSTM":
            return Drawn(ours, theirs, [x, *states], batch_axis=None)

        def both(module: Any) -> Callable[..., Any]:
            return lambda a, h, c: module(a, (h, c))

        return Drawn(ours, both(theirs), [x, *states], module=theirs, call=both(ours), batch_axis=None)

    return row


for _kind in ("RNN", "GRU", "LSTM"):
    LAYERS[f"Stacked{_kind}"] = _stacked(_kind)

# ---- attention ---------------------------------------------------------------------------------------------------------


def _mask(draw: Draw, *shape: int) -> np.ndarray:
    """True takes part; every row has one at least."""
    mask = draw.rng.random(shape) < 0.6
    mask[..., 0] = True
    return mask


@layer("MultiheadAttention")
def _attention(draw: Draw) -> Drawn:
    heads, bias = draw.size(1, 3), draw.flag()
    dim, batch, s, t = heads * draw.size(1, 4), draw.size(1, 3), draw.size(1, 6), draw.size(1, 6)
    others = draw.one_of((None, None), (draw.size(), draw.size()))
    ours = nn.MultiheadAttention(dim, heads, bias, key_dim=others[0], value_dim=others[1])
    theirs = torch.nn.MultiheadAttention(dim, heads, bias=bias, kdim=others[0], vdim=others[1], batch_first=True)
    inputs = [
        draw.normal(batch, s, dim),
        draw.normal(batch, t, others[0] or dim),
        draw.normal(batch, t, others[1] or dim),
    ]
    mask, keys = _mask(draw, s, t), _mask(draw, batch, t)
    which = draw.one_of("none", "mask", "keys", "causal", "added")
    added = draw.normal(s, t)
    if which == "causal":
        inputs[1], inputs[2] = (draw.normal(batch, s, x.shape[2]) for x in inputs[1:])

    def call(module: Any, number: Callable[[np.ndarray], Any], inverted: bool) -> Callable[..., Any]:
        def run(q: Any, k: Any, v: Any) -> Any:
            if not inverted:
                options = {"mask": {"mask": number(mask)}, "keys": {"key_mask": number(keys)}}
                options |= {"none": {}, "causal": {"causal": True}, "added": {"mask": number(added)}}
                return module(q, k, v, **options[which])
            options = {"mask": {"attn_mask": number(~mask)}, "keys": {"key_padding_mask": number(~keys)}}
            square = number(~np.tril(np.ones((s, s), bool)))
            options |= {"none": {}, "causal": {"attn_mask": square}, "added": {"attn_mask": number(added).double()}}
            return module(q, k, v, need_weights=False, **options[which])[0]

        return run

    import burn

    symbolic = None if which == "keys" else 0
    return Drawn(
        ours, call(theirs, torch.from_numpy, True), inputs, module=theirs, call=call(ours, burn.constant, False),
        batch_axis=symbolic,
    )  # fmt: skip


class Cross(torch.nn.Module):
    """Attention with shared key heads, written out; True in the mask takes part."""

    def __init__(self, dim: int, heads: int, context: int, shared: int) -> None:
        super().__init__()
        self.heads, self.shared, self.depth = heads, shared, dim // heads
        self.query, self.output = torch.nn.Linear(dim, dim), torch.nn.Linear(dim, dim)
        self.key, self.value = (torch.nn.Linear(context, shared * self.depth) for _ in range(2))

    def forward(self, x: Any, context: Any) -> Any:
        def split(y: Any, heads: int) -> Any:
            return y.unflatten(2, (heads, self.depth)).transpose(1, 2)

        q, k, v = (
            split(self.query(x), self.heads),
            split(self.key(context), self.shared),
            split(self.value(context), self.shared),
        )
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return self.output(y.transpose(1, 2).flatten(2))


@layer("CrossAttention")
def _cross(draw: Draw) -> Drawn:
    shared = draw.size(1, 2)
    heads = shared * draw.size(1, 3)
    dim, context, batch = heads * draw.size(1, 3), draw.size(), draw.size(1, 3)
    ours = nn.CrossAttention(dim, heads, context, kv_heads=shared)
    inputs = [draw.normal(batch, draw.size(), dim), draw.normal(batch, draw.size(), context)]
    return Drawn(ours, Cross(dim, heads, context, shared), inputs)


# ---- transformers ------------------------------------------------------------------------------------------------------


def _transformer(kind: str, stacked: bool) -> Callable[[Draw], Drawn]:
    def row(draw: Draw) -> Drawn:
        heads = draw.size(1, 3)
        dim, hidden, batch = heads * draw.size(2, 4), draw.size(2, 9), draw.size(1, 3)
        first, activation, bias = draw.flag(), draw.one_of("relu", "gelu"), draw.flag()
        theirs = getattr(torch.nn, f"Transformer{kind}Layer")(
            dim, heads, hidden, 0.0, activation, norm_first=first, bias=bias, batch_first=True
        )
        options = {"activation": activation, "norm_first": first, "bias": bias}
        if stacked:
            norm = torch.nn.LayerNorm(dim, bias=bias) if first else None
            arguments = {"enable_nested_tensor": False} if kind == "Encoder" else {}
            theirs = getattr(torch.nn, f"Transformer{kind}")(theirs, 2, norm, **arguments)
            ours = getattr(nn, f"Transformer{kind}")(dim, heads, hidden, 2, **options)
        else:
            ours = getattr(nn, f"Transformer{kind}Layer")(dim, heads, hidden, **options)
        for name, parameter in theirs.named_parameters():  # which torch makes alike in every layer
            values = draw.normal(*parameter.shape)
            parameter.copy_(torch.from_numpy(values if "norm" in name else values / max(dim, hidden) ** 0.5))
        x, causal = draw.normal(batch, draw.size(2, 6), dim), draw.flag()
        square = torch.from_numpy(~np.tril(np.ones((x.shape[1],) * 2, bool))) if causal else None
        if kind == "Encoder":
            their_options = {"mask" if stacked else "src_mask": square}
            return Drawn(ours, theirs, [x], {"causal": causal}, their_options)
        inputs = [x, draw.normal(batch, draw.size(), dim)]
        return Drawn(ours, theirs, inputs, {"causal": causal}, {"tgt_mask": square})

    return row


for _kind in ("Encoder", "Decoder"):
    LAYERS[f"Transformer{_kind}"] = _transformer(_kind, True)
    LAYERS[f"Transformer{_kind}Layer"] = _transformer(_kind, False)


class Gated(torch.nn.Module):
    def __init__(self, a: int, b: int, bias: bool, activation: Callable[[Any], Any]) -> None:
        super().__init__()
        self.gate, self.linear, self.activation = torch.nn.Linear(a, b, bias), torch.nn.Linear(a, b, bias), activation

    def forward(self, x: Any) -> Any:
        return self.activation(self.gate(x)) * self.linear(x)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "mish": F.mish, "leaky_relu": F.leaky_relu, "elu": F.elu,
    "hard_swish": F.hardswish, "relu_squared": lambda x: F.relu(x) ** 2, "identity": lambda x: x,
}  # fmt: skip


@layer("GatedLinear")
def _gated(draw: Draw) -> Drawn:
    a, b, bias, name = draw.size(), draw.size(), draw.flag(), draw.one_of(*ACTIVATIONS)
    return Drawn(
        nn.GatedLinear(a, b, name, bias), Gated(a, b, bias, ACTIVATIONS[name]), [draw.normal(*draw.sizes(2), a)]
    )


def _named(name: str, activation: str) -> Callable[[Draw], Drawn]:
    def row(draw: Draw) -> Drawn:
        a, b, bias = draw.size(), draw.size(), draw.flag()
        theirs = Gated(a, b, bias, ACTIVATIONS[activation])
        return Drawn(getattr(nn, name)(a, b, bias), theirs, [draw.normal(*draw.sizes(2), a)])

    return row


for _name, _activation in (("SwiGLU", "silu"), ("GEGLU", "gelu"), ("ReGLU", "relu")):
    LAYERS[_name] = _named(_name, _activation)


@layer("FeedForward")
def _feed(draw: Draw) -> Drawn:
    dim, hidden, bias, gated, name = draw.size(), draw.size(), draw.flag(), draw.flag(), draw.one_of(*ACTIVATIONS)
    activation = ACTIVATIONS[name]

    class Feed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner: Any = Gated(dim, hidden, bias, activation) if gated else torch.nn.Linear(dim, hidden, bias)
            self.outer = torch.nn.Linear(hidden, dim, bias)

        def forward(self, x: Any) -> Any:
            return self.outer(self.inner(x) if gated else activation(self.inner(x)))

    ours = nn.FeedForward(dim, hidden, name, bias=bias, gated=gated)
    return Drawn(ours, Feed(), [draw.normal(*draw.sizes(2), dim)])


# ---- positions ---------------------------------------------------------------------------------------------------------


@layer("RotaryEmbedding")
def _rotary(draw: Draw) -> Drawn:
    half, interleaved, offset = draw.size(1, 4), draw.flag(), draw.size(0, 30)
    rest, base = draw.one_of(0, 2), draw.one_of(10000.0, 500000.0)
    x = draw.normal(draw.size(1, 3), draw.size(1, 3), draw.size(), 2 * half + rest)

    def theirs(y: Any) -> Any:
        angle = torch.arange(offset, offset + y.shape[2])[:, None] * base ** (-torch.arange(half) / half).double()
        z = y[..., : 2 * half]
        pairs = z.unflatten(-1, (half, 2)).unbind(-1) if interleaved else z.chunk(2, -1)
        turned = torch.complex(*pairs) * torch.polar(torch.ones_like(angle), angle)
        parts = [turned.real, turned.imag]
        joined = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
        return torch.cat([joined, y[..., 2 * half :]], -1)

    return Drawn(nn.RotaryEmbedding(2 * half, base, interleaved), theirs, [x], {"offset": offset})


@layer("SinusoidalPositions")
def _waves(draw: Draw) -> Drawn:
    half, offset = draw.size(), draw.size(0, 30)
    x = draw.normal(draw.size(), draw.size(), 2 * half)

    def theirs(y: Any) -> Any:
        times = torch.arange(offset, offset + y.shape[1])[:, None].double()
        angle = times * torch.exp(-torch.arange(half) * math.log(10000.0) / half).double()
        table = torch.zeros(y.shape[1], 2 * half).double()
        table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
        return y + table

    return Drawn(nn.SinusoidalPositions(2 * half), theirs, [x], {"offset": offset})


@layer("LearnedPositions")
def _learned(draw: Draw) -> Drawn:
    dim, offset, length = draw.size(), draw.size(0, 5), draw.size()
    table = torch.nn.Embedding(length + offset, dim)
    ours = nn.LearnedPositions(length + offset, dim)

    def theirs(y: Any) -> Any:
        return y + table.weight[offset:].double()

    return Drawn(ours, theirs, [draw.normal(draw.size(), length, dim)], {"offset": offset}, module=table)
