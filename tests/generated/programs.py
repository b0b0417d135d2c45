"""The fixed set of programs whose generated code a refactoring must not change.

Every program is small and covers another part of the code generators: `PROGRAMS` lists them by name. Each function returns a
new program, since the passes change it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import burn
from burn import nn, optim
from burn import ops as layers
from burn.dialect import ops
from burn.dialect.program import Program
from burn.tracing.arguments import Dynamic
from burn.tracing.trace import arguments_of, trace, trace_call, trace_examples
from tests.e2e.test_zero import Encoder, Network, Tagger

Tensor = burn.Tensor


def encoder() -> Program:
    """A transformer encoder with named sizes: embedding, attention, layer norm, GELU."""
    burn.manual_seed(0)
    return trace_examples(Encoder().eval(), ("int64[b, s]",))


def convolutions() -> Program:
    """Convolutions, batch norm and pooling with a named batch size and height."""
    burn.manual_seed(0)
    return trace_examples(Network().eval(), ("float32[b, 3, h, 12]",))


class Wide(nn.Module):
    """Channels enough for the Winograd transform and packed weights."""

    def __init__(self) -> None:
        self.first, self.second = nn.Conv2d(32, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)
        self.depthwise, self.head = nn.Conv2d(64, 64, 3, groups=64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(burn.relu(self.first(x)))
        return self.head(self.depthwise(x).mean((2, 3)))


def winograd() -> Program:
    burn.manual_seed(0)
    return trace_examples(Wide().eval(), ("float32[2, 32, 28, 28]",))


def recurrent() -> Program:
    """An LSTM: a loop with carried values and slices written by index."""
    burn.manual_seed(0)
    return trace_examples(Tagger(), ("float32[b, s, 6]",))


class Mixer(nn.Module):
    """Causal attention, as in a decoder, with a tied output layer."""

    def __init__(self) -> None:
        self.embed, self.norm = nn.Embedding(101, 64), nn.LayerNorm(64)
        self.mix, self.head = nn.Linear(64, 192), nn.Linear(64, 101)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        q, k, v = burn.split(self.mix(self.norm(x)).reshape(*ids.shape, 12, 16).swapaxes(1, 2), 3, axis=1)
        y = layers.attention(q, k, v, scale=0.25, causal=True).swapaxes(1, 2).reshape(*ids.shape, 64)
        return self.head(burn.gelu(x + y))


def _trained(model: nn.Module, loss: Callable[..., Any], examples: tuple[Any, ...], dynamic: Dynamic) -> Program:
    """A training step with AdamW; parameters and the optimizer's state are inputs that the step writes over."""
    step = burn.train.step(model, loss, optim.AdamW(model, lr=1e-3), clip_norm=1.0)

    def run(x: Tensor, y: Tensor) -> Tensor:
        return step.run(x, y)

    traced = trace_call(run, arguments_of(run, examples, dynamic), opens=True)
    traced.program.given_up = tuple(traced.program.renews.values())
    return traced.program


def training() -> Program:
    """Attention, embedding and cross entropy, forward and backward, with the update of every parameter."""
    burn.manual_seed(0)

    def loss(model: nn.Module, ids: Tensor, labels: Tensor) -> Tensor:
        return nn.CrossEntropyLoss()(model(ids).reshape(-1, 101), labels.reshape(-1))

    return _trained(Mixer(), loss, ("int64[b, 16]", "int64[b, 16]"), {})


class Images(nn.Module):
    def __init__(self) -> None:
        self.conv, self.norm, self.drop = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Dropout(0.2)
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(8 * 16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(burn.relu(self.norm(self.conv(x))))
        return self.head(self.drop(x.reshape(x.shape[0], -1)))


def training_images() -> Program:
    """Convolution, batch norm with running statistics, dropout and pooling, forward and backward."""
    burn.manual_seed(0)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return nn.CrossEntropyLoss()(model(x), y)

    return _trained(Images().train(), loss, ("float32[b, 1, 8, 8]", "int64[b]"), {})


def quantised() -> Program:
    """A static quantised ONNX model: uint8 activations, int8 weights, int32 accumulators."""
    from burn.importers.onnx import import_onnx
    from burn.quantization import quantize_static
    from tests.quantization.models import images, residual_network

    made = quantize_static(residual_network(), [{"x": x[None]} for x in images(2)])
    return import_onnx(made.SerializeToString())


def few_bits() -> Program:
    """Matmuls with 4-bit weights in blocks, one row and several."""
    rng = np.random.default_rng(4)
    program = Program.create([("x", burn.spec("float32[1, 64]")), ("y", burn.spec("float32[n, 64]"))])
    arrays = [
        rng.integers(0, 256, (48, 2, 16)).astype("uint8"),
        rng.uniform(-1, 1, (48, 2)).astype("float32"),
        rng.uniform(0, 16, (48, 2)).astype("float32"),
    ]
    with program.building("matmul"):
        keys = [program.weights.add_array(a, "w") for a in arrays]
        parts = [ops.weight(key=k, shape=a.shape, dtype=str(a.dtype)) for k, a in zip(keys, arrays, strict=True)]
        made = [ops.block_dot(each, *parts, bits=4, block=32) for each in program.inputs]
    return program.finish([("a", made[0]), ("b", made[1])])


def matmuls() -> Program:
    """Matmuls of several element types and shapes: one row, named sizes, a constant and a variable rhs, batches."""
    rng = np.random.default_rng(1)
    w, u = rng.standard_normal((200, 96)).astype("float32"), rng.integers(-128, 128, (64, 40)).astype("int8")

    def function(x: Tensor, y: Tensor, h: Tensor, b: Tensor, i: Tensor) -> list[Tensor]:
        bytes_ = (i.astype("int32") - 3) @ (burn.tensor(u).astype("int32") - 0)
        return [burn.relu(x @ w + 1), x[:1] @ w, y @ y.swapaxes(-1, -2), h @ h.T, b @ b, bytes_]

    shapes = {
        "x": "float32[n, 200]",
        "y": "float32[3, n, 33]",
        "h": "float16[64, 64]",
        "b": "bfloat16[128, 128]",
        "i": "uint8[n, 64]",
    }
    return trace(function, shapes)


def scatter() -> Program:
    """Gather, scatter with several combinations, updates by index, one-hot, top-k."""

    def function(x: Tensor, i: Tensor, u: Tensor) -> list[Tensor]:
        added = x.at[i].add(u)
        largest, where = burn.topk(x, 3, axis=0)
        return [x[i], added, x.at[i].max(u), x.at[i].set(u), largest, where, burn.one_hot(i, 7)]

    return trace(function, {"x": "float32[n, 8]", "i": "int64[m]", "u": "float32[m, 8]"})


def loops() -> Program:
    """A loop with a slice of each iteration, a branch, a running sum."""

    def halved(iteration: Tensor, going: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return going, y * 0.5 + iteration.astype("float32"), y.sum()

    def function(x: Tensor, n: Tensor) -> list[Tensor]:
        total, steps = burn.loop(halved, [x], trips=5, scans=1)
        chosen = burn.cond(n > 2, lambda: x * 2, lambda: x - 1)
        return [total, steps, chosen, burn.cumsum(x, axis=1)]

    return trace(function, {"x": "float32[4, k]", "n": "int64[]"})


def sizes() -> Program:
    """Sizes known only when the program runs: nonzero, unique, concatenation, slices of named sizes."""

    def function(x: Tensor, y: Tensor) -> list[Tensor | tuple[Tensor, ...]]:
        joined = burn.concat([x, y], axis=0)
        return [burn.nonzero(x), burn.unique(y), joined[:-1] - joined[1:], joined.reshape(-1, 2).softmax(-1)]

    return trace(function, {"x": "float32[a, 4]", "y": "float32[b, 4]"})


def elements() -> Program:
    """Pointwise functions of every kind of element, reductions along every axis, casts, complex numbers, sorting."""

    def function(x: Tensor, h: Tensor, i: Tensor, d: Tensor) -> list[Tensor]:
        z = burn.fft.rfft(x, axis=-1)
        pointwise = burn.exp(x) + burn.sin(x) * burn.erf(x) / (1 + burn.abs(x))
        return [
            pointwise,
            burn.tanh(h).astype("float32") + h.sum(0).astype("float32"),
            (i // 3 + i % 5) ^ (i << 2),
            x.var(0),
            x.max(1),
            x.argmax(0),
            d.mean(),
            d.log().prod(-1),
            z.abs(),
            burn.sort(x, axis=1),
            burn.pad(x, ((1, 2), (0, 3))),
            burn.flip(x, axis=1).T,
        ]

    return trace(function, {"x": "float32[n, 16]", "h": "float16[n, 16]", "i": "int32[n]", "d": "float64[n, 3]"})


PROGRAMS: Mapping[str, Callable[[], Program]] = {
    each.__name__: each
    for each in (
        encoder,
        convolutions,
        winograd,
        recurrent,
        training,
        training_images,
        quantised,
        few_bits,
        matmuls,
        scatter,
        loops,
        sizes,
        elements,
    )
}
