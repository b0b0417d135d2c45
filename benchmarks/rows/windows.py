"""Convolutions with groups: layers drawn from models, forward and both gradients, in both layouts.

A row's time is that of its kernels by the GPU's clock, from torch's profiler for all libraries. Inputs alternate between
copies that together exceed the cache. The bound is a copy that moves as many bytes as the layer's tensors have."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import burn
from burn import ops
from burn.runtime.device import device
from burn.runtime.device_array import resident
from rows.timing import Goal, Row, difference

MODELS = ("mobilenetv3_large_100", "efficientnet_b0", "convnext_tiny", "regnety_008", "mobilevit_s", "resnext50_32x4d")
"""timm's models whose layers are drawn."""

DRAWN, SEED, BATCH = 4, 32, 32
OF_A_COPY = 0.85
SETS = 4
TOLERANCE = 0.02

EXTRA = (
    ("conformer, 31 taps", (16, 512, 1000), (512, 1, 31), (1,), (15,)),
    ("video, 3x3x3", (4, 96, 16, 28, 28), (96, 1, 3, 3, 3), (1, 1, 1), (1, 1, 1)),
)
"""1-D and 3-D layers: name, input, weight, strides, padding."""


@dataclass(frozen=True)
class Layer:
    """A convolution of one group for each run of channels. x: [N, C, d..]; weight: [O, C / groups, k..]."""

    name: str
    x: tuple[int, ...]
    weight: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]

    @property
    def groups(self) -> int:
        return self.x[1] // self.weight[1]

    @property
    def y(self) -> tuple[int, ...]:
        rows = zip(self.x[2:], self.weight[2:], self.strides, self.padding, strict=True)
        return (self.x[0], self.weight[0], *((d + 2 * p - k) // s + 1 for d, k, s, p in rows))

    @property
    def options(self) -> dict[str, Any]:
        ones = (1,) * len(self.strides)
        return {
            "strides": self.strides,
            "dilations": ones,
            "low": self.padding,
            "high": self.padding,
            "groups": self.groups,
        }

    def __str__(self) -> str:
        window, image = "x".join(map(str, self.weight[2:])), "x".join(map(str, self.x))
        step = f", stride {self.strides[0]}" if self.strides[0] > 1 else ""
        each = "depthwise" if self.groups == self.x[1] else f"{self.weight[1]} channels a group"
        return f"{self.name}: {window}{step}, {each}, {image}"


def layers() -> list[Layer]:
    """Layers of the models, drawn, and those of `EXTRA`."""
    import timm

    drawn: list[Layer] = []
    for name in MODELS:
        found: dict[tuple[Any, ...], Layer] = {}
        model = timm.create_model(name).eval().to("meta")

        def keep(module: Any, given: Any, result: Any, found: Any = found, name: str = name) -> None:
            padding = tuple(module.padding) if isinstance(module.padding, tuple) else (0,) * len(module.stride)
            if module.groups > 1:
                made = Layer(name, tuple(given[0].shape), tuple(module.weight.shape), tuple(module.stride), padding)
                found.setdefault((made.x, made.weight, made.strides), made)

        for module in model.modules():
            if isinstance(module, torch.nn.Conv2d):
                module.register_forward_hook(keep)
        model(torch.empty(BATCH, *model.default_cfg["input_size"], device="meta"))
        drawn += random.Random(SEED).sample(list(found.values()), min(DRAWN, len(found)))
    return drawn + [Layer(*row) for row in EXTRA]


def first(value: Any, last: bool) -> Any:
    rank = len(value.shape)
    return ops.transpose(value, permutation=(0, rank - 1, *range(1, rank - 1))) if last else value


def back(value: Any, last: bool) -> Any:
    rank = len(value.shape)
    return ops.transpose(value, permutation=(0, *range(2, rank), 1)) if last else value


def ours(layer: Layer, kind: str, last: bool) -> tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]:
    """burn's function, and the shapes of its operands (channels first)."""

    def forward(x: Any, w: Any) -> Any:
        return back(ops.conv(first(x, last), w, **layer.options), last)

    def of_input(g: Any, w: Any) -> Any:
        rows = zip(layer.y[2:], layer.strides, layer.weight[2:], layer.padding, layer.x[2:], strict=True)
        high = tuple((e - 1) * s + k - p - d for e, s, k, p, d in rows)
        options: dict[str, Any] = layer.options | {"high": high, "extra": (0,) * len(high)}
        return back(ops.conv_transpose(first(g, last), w, **options), last)

    def of_weight(x: Any, g: Any, w: Any) -> Any:
        return burn.vjp(lambda w: ops.conv(first(x, last), w, **layer.options), w)[1](first(g, last))[0]

    shapes = {
        "forward": (layer.x, layer.weight),
        "input": (layer.y, layer.weight),
        "weight": (layer.x, layer.y, layer.weight),
    }
    return {"forward": forward, "input": of_input, "weight": of_weight}[kind], shapes[kind]


def theirs(layer: Layer, kind: str, *given: torch.Tensor) -> Any:
    none, ones = [0] * len(layer.strides), [1] * len(layer.strides)
    attrs = (list(layer.strides), list(layer.padding), ones, False, none, layer.groups)
    if kind == "forward":
        return torch.ops.aten.convolution(*given, None, *attrs)
    wanted = [kind == "input", kind == "weight", False]
    if kind == "input":
        g, w = given
        x = torch.empty(layer.x, device=g.device, dtype=g.dtype).to(memory_format=memory_format(g))
        return torch.ops.aten.convolution_backward(g, x, w, None, *attrs, wanted)[0]
    x, g, w = given
    return torch.ops.aten.convolution_backward(g, x, w, None, *attrs, wanted)[1]


def memory_format(like: torch.Tensor) -> torch.memory_format:
    last = like.ndim == 4 and like.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def kernel_seconds(calls: Sequence[Callable[[], Any]], rounds: int = 3) -> float:
    """Seconds of a call's kernels, over calls that alternate between inputs."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(rounds):
            for call in calls:
                call()
        device("cuda").native.wait()
        torch.cuda.synchronize()
    spent = sum(event.self_device_time_total for event in found.key_averages())
    return spent / 1e6 / rounds / len(calls)


def types_of(layer: Layer, kind: str, last: bool) -> list[str]:
    _, shapes = ours(layer, kind, last)
    order = lambda s: (s[0], *s[2:], s[1]) if last and s != layer.weight else s  # noqa: E731
    return [f"float16[{', '.join(map(str, order(s)))}]" for s in shapes]


def compiled(layer: Layer, kind: str, last: bool) -> Any:
    function, _ = ours(layer, kind, last)
    return burn.compile(function, types_of(layer, kind, last), device="cuda")


def cases(drawn: Sequence[Layer] | None = None) -> dict[str, Callable[[], Row]]:
    found: dict[str, Callable[[], Row]] = {}
    for layer in layers() if drawn is None else drawn:
        for last in (True, False):
            for kind in ("forward", "input", "weight"):
                name = f"{layer}, {'channels-last' if last else 'channels-first'}, {KINDS[kind]}"
                found[name] = partial(window, name, layer, kind, last)
    return found


KINDS = {"forward": "forward", "input": "input's gradient", "weight": "weight's gradient"}


def window(name: str, layer: Layer, kind: str, last: bool) -> Row:
    _, shapes = ours(layer, kind, last)
    executable = compiled(layer, kind, last)
    sets, given = [], []
    for _ in range(SETS):
        tensors = [torch.randn(s, device="cuda", dtype=torch.float16) * 0.1 for s in shapes]
        rank = len(layer.x)
        order, inverse = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
        stored = [t.permute(order).contiguous() if last and t.shape != layer.weight else t for t in tensors]
        sets.append(
            [
                t.permute(inverse) if last and v.shape != layer.weight else t
                for t, v in zip(stored, tensors, strict=True)
            ]
        )
        given.append([resident(t, device("cuda")) for t in stored])
    got = torch.from_dlpack(executable(*given[0])).float()
    want = theirs(layer, kind, *(t.float() for t in sets[0]))
    if last and kind != "weight":
        want = want.permute((0, *range(2, want.ndim), 1))
    error = difference(got, want)
    assert error < TOLERANCE, f"{name} differs by {error}"
    moved = 2 * sum(torch.Size(s).numel() for s in (layer.x, layer.y, layer.weight))
    buffers = [torch.empty(moved // 4, device="cuda", dtype=torch.float16).normal_() for _ in range(SETS)]
    copy = kernel_seconds([partial(torch.clone, b) for b in buffers])
    peers = {"torch": kernel_seconds([partial(theirs, layer, kind, *each) for each in sets])}
    made = Row(name, kernel_seconds([partial(executable, *each) for each in given]), peers, moved, "GB/s")
    made.goals.append(Goal("a copy", copy / made.burn, OF_A_COPY))
    return made
