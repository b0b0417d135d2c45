"""The layers that random networks consist of. Enter at `LAYERS`: functions of the drawn context and the shape of the value `x`.

Each returns a line of Python over `x` and modules `m[i]`, whose constructors it adds. A line that torch refuses for this shape
is drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

WIDTHS = (1, 2, 3, 5, 8, 16, 17, 24, 32, 33, 48)


@dataclass
class Draw:
    """shape: of the value `x`. modules: the constructors of the network's modules so far."""

    chance: Random
    shape: tuple[int, ...]
    modules: list[str] = field(default_factory=list)

    def one(self, *values: Any) -> Any:
        return self.chance.choice(values)

    def likely(self, part: float) -> bool:
        return self.chance.random() < part

    def module(self, text: str) -> str:
        self.modules.append(text)
        return f"m[{len(self.modules) - 1}]"

    @property
    def axes(self) -> int:
        """Spatial axes of an image."""
        return len(self.shape) - 2

    @property
    def channels(self) -> int:
        return self.shape[1]

    def groups(self) -> int:
        """A divisor of the channels; in a quarter of the draws all of them, a depthwise layer."""
        c = max(self.channels, 1)
        kind = self.one("whole", "whole", "grouped", "depthwise")
        if kind == "whole":
            return 1
        return c if kind == "depthwise" else self.one(*(g for g in range(1, c + 1) if c % g == 0))


Layer = Callable[[Draw], str]
LAYERS: list[tuple[int, Layer]] = []
"""(weight, layer)."""


def layer(weight: int) -> Callable[[Layer], Layer]:
    def enter(function: Layer) -> Layer:
        LAYERS.append((weight, function))
        return function

    return enter


def _outputs(d: Draw, groups: int) -> int:
    if groups == d.channels:
        return groups * d.one(1, 1, 1, 2, 3)
    return groups * max(1, d.one(*WIDTHS) // groups)


def _tuple(values: Sequence[int]) -> str:
    return f"({', '.join(map(str, values))},)"


@layer(14)
def convolution(d: Draw) -> str:
    """Any kernel, stride and dilation, and padding up to more than the kernel's reach: taps and windows in padding alone."""
    groups = d.groups()
    kernel, stride, dilation, padding = [], [], [], []
    alike = d.one(0, 1, 1, 3, 3, 3, 5, 7)
    for size in d.shape[2:]:
        extent, by = alike or d.one(1, 2, 3, 4, 5), d.one(1, 1, 1, 1, 2, 3)
        step = d.one(1, 1, 1, 1, 2, 3)
        reach = (extent - 1) * by + 1
        around = d.one(extent // 2 * by, reach // 2, 0, d.chance.randint(0, reach + 1))
        around = max(around, (reach - size + 1) // 2)
        for row, value in zip((kernel, stride, dilation, padding), (extent, step, by, around), strict=True):
            row.append(value)
    options = [
        f"{d.channels}, {_outputs(d, groups)}, {_tuple(kernel)}, {_tuple(stride)}, {_tuple(padding)}, {_tuple(dilation)}",
        f"groups={groups}",
        f"bias={d.likely(0.7)}",
    ]
    if d.likely(0.08):
        options.append(f"padding_mode={d.one('reflect', 'replicate', 'circular')!r}")
    made = d.module(f"nn.Conv{d.axes}d({', '.join(options)})")
    return f"{made}(x)"


@layer(7)
def transposed(d: Draw) -> str:
    groups = d.groups()
    rows: list[list[int]] = [[], [], [], [], []]
    for _ in d.shape[2:]:
        extent, step, by = d.one(1, 2, 2, 3, 3, 4, 5), d.one(1, 2, 2, 3, 4), d.one(1, 1, 1, 2, 3)
        around = d.chance.randint(0, (extent - 1) * by // 2 + 1)
        extra = d.one(0, 0, max(step, by) - 1)
        for row, value in zip(rows, (extent, step, around, extra, by), strict=True):
            row.append(value)
    kernel, stride, padding, extra, dilation = map(_tuple, rows)
    text = f"{d.channels}, {_outputs(d, groups)}, {kernel}, {stride}, {padding}, {extra}, {groups}, {d.likely(0.7)}, {dilation}"
    made = d.module(f"nn.ConvTranspose{d.axes}d({text})")
    return f"{made}(x)"


@layer(4)
def shortcut(d: Draw) -> str:
    """A branch of two convolutions beside the value, added, joined or multiplied."""
    c, extent = d.channels, d.one(1, 3, 3, 5)
    groups = d.groups()
    first = d.module(f"nn.Conv{d.axes}d({c}, {c}, {extent}, padding={extent // 2}, groups={groups})")
    second = d.module(f"nn.Conv{d.axes}d({c}, {c}, {d.one(1, 1, 3)}, padding='same', bias={d.likely(0.5)})")
    branch = f"{second}(F.{d.one('relu', 'silu', 'gelu', 'hardswish')}({first}(x)))"
    return d.one(
        f"x + {branch}", f"torch.cat([x, {branch}], 1)", f"x * torch.sigmoid({branch})", f"F.relu({branch} + x)"
    )


@layer(2)
def parallel(d: Draw) -> str:
    """Convolutions and linear layers of one value, which the compiler merges."""
    widths = [d.one(*WIDTHS) for _ in range(d.one(2, 2, 3))]
    if d.likely(0.5):
        made = [d.module(f"nn.Conv{d.axes}d({d.channels}, {w}, 1, bias={d.likely(0.7)})") for w in widths]
        return f"torch.cat([{', '.join(f'{m}(x)' for m in made)}], 1)"
    made = [d.module(f"nn.Linear({d.shape[-1]}, {w}, bias={d.likely(0.7)})") for w in widths]
    return f"torch.cat([{', '.join(f'{m}(x)' for m in made)}], -1)"


@layer(1)
def squeeze(d: Draw) -> str:
    """Squeeze and excitation."""
    inner = max(1, d.channels // 4)
    down, up = (d.module(f"nn.Conv{d.axes}d({a}, {b}, 1)") for a, b in ((d.channels, inner), (inner, d.channels)))
    axes = tuple(range(2, d.axes + 2))
    return f"x * torch.sigmoid({up}(F.relu({down}(x.mean({axes}, keepdim=True)))))"


@layer(6)
def activation(d: Draw) -> str:
    if d.likely(0.15):
        made = d.module(f"nn.PReLU({d.channels})")
        return f"{made}(x)"
    return (
        f"F.{d.one('relu', 'relu6', 'gelu', 'silu', 'mish', 'elu', 'leaky_relu', 'hardswish', 'softplus', 'tanh')}(x)"
    )


@layer(5)
def norm(d: Draw) -> str:
    c = d.channels
    kinds = [f"nn.BatchNorm{d.axes}d({c})", f"nn.InstanceNorm{d.axes}d({c}, affine=True)", f"nn.GroupNorm(1, {c})"]
    kinds += [
        f"nn.GroupNorm({d.groups()}, {c})",
        f"nn.LayerNorm({d.shape[-1]})",
        f"nn.RMSNorm({d.shape[-1]}, eps=1e-5)",
    ]
    return f"{d.module(d.one(*kinds))}(x)"


@layer(4)
def pooling(d: Draw) -> str:
    kernel, stride = d.one(2, 3), d.one(1, 2)
    padding = d.one(0, kernel // 2)
    return d.one(
        f"F.max_pool{d.axes}d(x, {kernel}, {stride}, {padding})",
        f"F.avg_pool{d.axes}d(x, {kernel}, {stride}, {padding}, count_include_pad={d.likely(0.5)})",
        f"F.max_pool{d.axes}d(x, {kernel}, {stride}, {padding}, ceil_mode=True)",
        f"F.adaptive_avg_pool{d.axes}d(x, {d.one(1, 2, 3)})",
    )


@layer(4)
def moved(d: Draw) -> str:
    """Views, slices and joins between layers."""
    c, last = d.channels, d.shape[-1]
    pads = [d.chance.randint(0, 2) for _ in range(2 * d.axes)]
    return d.one(
        f"F.interpolate(x, scale_factor=2, mode={d.one('nearest', {1: 'linear', 2: 'bilinear', 3: 'trilinear'}[d.axes])!r})",
        f"F.pad(x, {pads})",
        "x.transpose(-1, -2).contiguous()",
        f"torch.cat(x.chunk(2, 1)[::-1], 1) * {d.one(1.0, 0.5)}",
        f"x[..., {d.chance.randrange(max(last, 1))}:]",
        "x[..., ::2]",
        "x.flip(-1)",
        f"torch.cat([x, x[:, :{max(1, c // 2)}]], 1)",
        f"x[:, torch.arange({c}).flip(0)]",
        f"sum(x.split({max(1, c // 2)}, 1), 0.0)" if c % 2 == 0 and c else "x * 2.0",
        f"(x[:, :{c // 2}] * torch.sigmoid(x[:, {c - c // 2}:]))" if c > 1 else "-x",
        "x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)" if c % 2 == 0 and c else "x.abs()",
        "F.pixel_shuffle(x, 2)",
        "F.pixel_unshuffle(x, 2)",
        "F.unfold(x, 3, padding=1).unsqueeze(2)",
        "x.mean(-1, keepdim=True) + x",
        "F.normalize(x, dim=1)",
        f"x.softmax({d.one(1, -1)})",
        "x.cumsum(-1) * 0.3",
    )


@layer(3)
def linear(d: Draw) -> str:
    w = d.one(*WIDTHS)
    made = d.module(f"nn.Linear({d.shape[-1]}, {w}, bias={d.likely(0.7)})")
    return d.one(f"{made}(x)", f"F.gelu({made}(x))", f"{made}(x).tanh()")


@layer(2)
def rows(d: Draw) -> str:
    """A multilayer perceptron over few rows, back as channels of an image of one element."""
    total = 1
    for s in d.shape[1:]:
        total *= s
    first, second = d.module(f"nn.Linear({total}, {d.one(8, 33, 64)})"), d.module(f"nn.LazyLinear({d.one(*WIDTHS)})")
    ones = "[..., None]" * d.axes
    return f"{second}(F.{d.one('relu', 'gelu', 'silu')}({first}(x.flatten(1)))){ones}"


def _sequence(d: Draw) -> tuple[str, int]:
    """The value as [batch, steps, features], and the number of features."""
    if d.axes == 1:
        return "x.transpose(1, 2)", d.channels
    return "x.flatten(2)[..., :9].transpose(1, 2)", d.channels


@layer(6)
def recurrent(d: Draw) -> str:
    """LSTM, GRU or RNN: of several layers, both directions, projections, over all or no steps."""
    kind = d.one("LSTM", "LSTM", "GRU", "GRU", "RNN")
    text, features = _sequence(d)
    hidden, first = d.one(1, 2, 3, 5, 8, 16, 20, 33), d.likely(0.6)
    options = f"num_layers={d.one(1, 1, 2)}, bidirectional={d.likely(0.4)}, batch_first={first}, bias={d.likely(0.8)}"
    if kind == "LSTM" and hidden > 2 and d.likely(0.2):
        options += f", proj_size={hidden // 2}"
    if kind == "RNN":
        options += f", nonlinearity={d.one('tanh', 'relu')!r}"
    made = d.module(f"nn.{kind}({features}, {hidden}, {options})")
    given = text if first else f"({text}).transpose(0, 1)"
    found = d.one(f"{made}({given})[0]", f"{made}({given})[0]", f"{made}({given})[0] * 0.5")
    out = found if first else f"({found}).transpose(0, 1)"
    if d.likely(0.25):
        state = f"{made}({given})[1]" + ("[0]" if kind == "LSTM" else "")
        out = f"{state}.transpose(0, 1)"
    return f"({out}).transpose(1, 2)"


@layer(3)
def loop(d: Draw) -> str:
    """A recurrence that is a loop in Python over cells."""
    text, features = _sequence(d)
    hidden, kind = d.one(1, 3, 8, 17), d.one("GRUCell", "LSTMCell", "RNNCell")
    made = d.module(f"nn.{kind}({features}, {hidden})")
    return f"scanned({made}, {text}, {d.likely(0.3)}).transpose(1, 2)"


@layer(3)
def attention(d: Draw) -> str:
    text, features = _sequence(d)
    heads = d.one(*(h for h in (1, 2, 3, 4) if features % h == 0)) if features else 1
    if d.likely(0.5):
        made = d.module(f"nn.MultiheadAttention({features}, {heads}, batch_first=True)")
        return f"(lambda s: {made}(s, s, s, need_weights=False)[0])({text}).transpose(1, 2)"
    qkv = [d.module(f"nn.Linear({features}, {features}, bias={d.likely(0.5)})") for _ in range(3)]
    split = f".unflatten(-1, ({heads}, -1)).transpose(1, 2)"
    inner = ", ".join(f"{m}(s){split}" for m in qkv)
    causal = d.likely(0.4)
    return (
        f"(lambda s: F.scaled_dot_product_attention({inner}, is_causal={causal}).transpose(1, 2).flatten(2))({text})"
        ".transpose(1, 2)"
    )


@layer(2)
def embedding(d: Draw) -> str:
    """Rows of a table at indices computed from data, and rows that data select."""
    width, count = d.one(1, 3, 8, 16, 31, 32, 40), d.one(1, 2, 7, 64)
    made = d.module(f"nn.Embedding({count}, {width})")
    index = f"(x.flatten(1)[:, :5].detach().abs() * 7).round().long() % {count}"
    return d.one(
        f"{made}({index}).transpose(1, 2) * x.mean()",
        f"{made}({index}).sum(1, keepdim=True).transpose(1, 2) + x.mean()",
    )
