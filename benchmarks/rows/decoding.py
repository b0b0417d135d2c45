"""Language models that write one token after another: a step at batch 1, with keys and values kept in tensors of one size.

Both libraries take the token, its position and the cache tensors. For its CUDA graphs, torch.compile writes into tensors at fixed
addresses. For burn, the tensors are donated inputs, which it overwrites.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

import burn
from burn.runtime.device import device
from burn.runtime.device_array import resident, to_device
from rows.models import AT_LEAST
from rows.shapes import GPT2_SMALL, LLAMA_1B, Shape
from rows.timing import Row, by_turns, difference, waited

f = torch.nn.functional

SHAPES = {"GPT-2 small fp16": GPT2_SMALL, "Llama-style 1B fp16": LLAMA_1B}


def turned(x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of [1, heads, 1, depth]."""
    half = x.shape[-1] // 2
    rates = 500000.0 ** -(torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = position.to(torch.float32) * rates
    cos, sin = angles.cos(), angles.sin()
    a, b = x.float().split(half, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Layer(torch.nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        bias = not shape.rotary
        norm = partial(torch.nn.RMSNorm, eps=1e-5) if shape.rotary else torch.nn.LayerNorm
        self.before, self.behind = norm(shape.width), norm(shape.width)
        self.qkv = torch.nn.Linear(shape.width, (shape.heads + 2 * shape.shared) * shape.depth, bias=bias)
        self.out = torch.nn.Linear(shape.width, shape.width, bias=bias)
        self.up = torch.nn.Linear(shape.width, shape.hidden * (2 if shape.rotary else 1), bias=bias)
        self.down = torch.nn.Linear(shape.hidden, shape.width, bias=bias)

    def forward(
        self, x: torch.Tensor, position: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, inside: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """inside: write into the kept tensors instead of making new ones."""
        s = self.shape
        q, k, v = (
            part.view(1, -1, 1, s.depth)
            for part in self.qkv(self.before(x)).split([s.width, s.shared * s.depth, s.shared * s.depth], -1)
        )
        if s.rotary:
            q, k = turned(q, position), turned(k, position)
        write = torch.Tensor.index_copy_ if inside else torch.Tensor.index_copy
        keys, values = write(keys, 2, position, k), write(values, 2, position, v)
        seen = (torch.arange(s.room, device=x.device) <= position).view(1, 1, 1, -1)
        y = f.scaled_dot_product_attention(q, keys, values, attn_mask=seen, enable_gqa=s.shared != s.heads)
        x = x + self.out(y.reshape(1, s.width))
        hidden = self.up(self.behind(x))
        if s.rotary:
            gate, hidden = hidden.chunk(2, -1)
            hidden = f.silu(gate) * hidden
        else:
            hidden = f.gelu(hidden, approximate="tanh")
        return x + self.down(hidden), keys, values


class Decoder(torch.nn.Module):
    """A step: the next token's scores, and the kept keys and values."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.words = torch.nn.Embedding(shape.words, shape.width)
        torch.nn.init.normal_(self.words.weight, std=0.02)
        self.positions = None if shape.rotary else torch.nn.Embedding(shape.room, shape.width)
        self.layers = torch.nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.last = torch.nn.RMSNorm(shape.width, eps=1e-5) if shape.rotary else torch.nn.LayerNorm(shape.width)

    def forward(
        self, token: torch.Tensor, position: torch.Tensor, kept: Sequence[torch.Tensor], inside: bool = False
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        x = self.words(token)
        if self.positions is not None:
            x = x + self.positions(position)
        new = []
        for i, layer in enumerate(self.layers):
            x, keys, values = layer(x, position, kept[2 * i], kept[2 * i + 1], inside)
            new += [keys, values]
        return f.linear(self.last(x), self.words.weight), new

    def empty(self) -> list[torch.Tensor]:
        s = self.shape
        weight = self.words.weight
        return [weight.new_zeros(1, s.shared, s.room, s.depth) for _ in range(2 * s.layers)]


class Kept(torch.nn.Module):
    """The same with kept tensors of its own, which each step writes into."""

    def __init__(self, model: Decoder) -> None:
        super().__init__()
        self.model = model
        for i, tensor in enumerate(model.empty()):
            self.register_buffer(f"kept{i}", tensor)

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        kept = [getattr(self, f"kept{i}") for i in range(2 * self.model.shape.layers)]
        return self.model(token, position, kept, True)[0]


class Steps:
    """burn's step, with the kept tensors of the step before."""

    def __init__(self, model: Decoder, where: str) -> None:
        model = model.cpu()
        examples = (torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), model.empty())
        self.compiled = burn.compile(model, examples, cache=False, device=where, donate=("kept",))
        self.kept: list[Any] = [to_device(t.numpy(), where) for t in model.empty()]

    def __call__(self, token: Any, position: Any) -> Any:
        scores, *self.kept = self.compiled.executable(token, position, *self.kept)
        return scores


def cases() -> dict[str, Callable[[], Row]]:
    return {f"{name}, a step at batch 1": partial(step, name, shape) for name, shape in SHAPES.items()}


def written(call: Callable[[Any, Any], torch.Tensor], tokens: Sequence[Any], positions: Sequence[Any]) -> torch.Tensor:
    """The scores behind the last of some tokens."""
    for token, position in zip(tokens, positions, strict=True):
        scores = call(token, position)
    return scores


def step(name: str, shape: Shape) -> Row:
    with torch.device("cuda"):
        model = Decoder(shape).half().eval()
    start = time.perf_counter()
    steps = Steps(model, "cuda")
    seconds = time.perf_counter() - start
    kept = Kept(model.cuda())
    fast = torch.compile(kept, mode="reduce-overhead")
    tokens = [torch.tensor([t], device="cuda") for t in (11, 7, 4093, 500)]
    positions = [torch.tensor([i], device="cuda") for i in range(4)]

    def ours(token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return torch.from_dlpack(steps(*(resident(t, device("cuda")) for t in (token, position))))

    error = difference(written(ours, tokens, positions), written(kept, tokens, positions))
    token, position = tokens[0], torch.tensor([shape.room // 2], device="cuda")
    arrays = [resident(t, device("cuda")) for t in (token, position)]

    def waits() -> None:
        steps(*arrays)
        device("cuda").wait()

    calls: dict[str, Callable[[], Any]] = {
        "burn": waits,
        "torch": lambda: kept(token, position),
        "torch.compile": lambda: fast(token, position),
    }
    times = by_turns(calls, waited, waited)
    made = Row(
        f"{name}, a step at batch 1 (compiled in {seconds:.1f} s, differs by {error:.0e})", times.pop("burn"), times
    )
    made.of_peers("torch.compile", AT_LEAST, "torch.compile")
    return made
