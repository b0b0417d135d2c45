"""The steps that random modules are made of: each is a line of Python over a tensor `x` of some shape. Enter at `STEPS`.

A step draws what it needs and returns its expression. An expression that does not fit the tensor fails when torch runs it,
and another step is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random


@dataclass
class Draw:
    """The context of a step: the tensor's shape, and a random generator. `parameter(shape)` is the name of a new parameter."""

    chance: Random
    shape: tuple[int, ...]
    parameters: list[tuple[int, ...]]
    others: Sequence[str]
    """Earlier values."""

    def parameter(self, *shape: int) -> str:
        self.parameters.append(shape)
        return f"p[{len(self.parameters) - 1}]"

    def pick(self, words: str) -> str:
        return self.chance.choice(words.split())

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def axis(self) -> int:
        return self.chance.randrange(-self.rank, self.rank)

    def among(self, *numbers: float) -> float:
        return self.chance.choice(numbers)

    def small(self, *numbers: int) -> int:
        return self.chance.choice(numbers)

    @property
    def flag(self) -> bool:
        return self.chance.random() < 0.5

    @property
    def last(self) -> int:
        return self.shape[-1]

    def indices(self, size: int, count: int) -> str:
        return f"torch.tensor({[self.chance.randrange(size) for _ in range(count)]})"

    def image(self, axes: int) -> str:
        """The tensor with a batch, channels, and so many axes."""
        if self.rank > axes + 2:
            return f"x.flatten(0, {self.rank - axes - 2})"
        return f"x[{'None, ' * (axes + 2 - self.rank)}...]" if self.rank < axes + 2 else "x"

    @property
    def channels(self) -> Callable[[int], int]:
        """Of that image."""

        def channels(axes: int) -> int:
            full = (1,) * max(axes + 2 - self.rank, 0) + self.shape
            return full[-axes - 1]

        return channels


Step = Callable[[Draw], str]
STEPS: list[tuple[int, Step]] = []
"""(weight, step)."""


def step(weight: int) -> Callable[[Step], Step]:
    def enter(function: Step) -> Step:
        STEPS.append((weight, function))
        return function

    return enter


UNARY = (
    "F.relu F.relu6 F.gelu F.silu F.mish F.elu F.selu F.celu F.softplus F.softsign F.tanhshrink F.softshrink F.hardshrink "
    "F.hardtanh F.hardswish F.hardsigmoid F.leaky_relu F.logsigmoid torch.tanh torch.sigmoid torch.exp torch.sin torch.cos "
    "torch.abs torch.square torch.neg torch.erf torch.atan torch.asinh torch.sinh torch.cosh torch.floor torch.round torch.sign "
    "torch.expm1 torch.sinc torch.frac torch.nan_to_num torch.trunc torch.ceil"
)
SAFE = (
    "torch.sqrt(x.abs() + 0.1)",
    "torch.rsqrt(x.abs() + 0.1)",
    "torch.log(x.abs() + 0.1)",
    "torch.log1p(x.abs())",
    "torch.lgamma(x.abs() + 1)",
    "torch.digamma(x.abs() + 1)",
    "1 / (x.square() + 1)",
    "torch.erfinv(torch.tanh(x) * 0.9)",
    "torch.xlogy(x, x.abs() + 0.5)",
    "torch.logit(torch.sigmoid(x), eps=1e-3)",
    "F.gelu(x, approximate='tanh')",
    "F.glu(torch.cat([x, x.cos()], -1), -1)",
    "x * x.detach() + x.detach()",
    "F.normalize(x, dim=-1)",
    "x.to(torch.bfloat16).to(x.dtype)",
    "x.clone().add_(1).mul_(x)",
    "x @ x.transpose(-1, -2)",
    "torch.outer(x.flatten()[:5], x.flatten()[:4])",
    "x.sum().expand(3, 2) + 0 * x.mean()",
    "F.softmax(x.flatten(), 0).view_as(x)",
    "x.masked_fill(x > 0.3, -1e4)",
    "x.clamp(-0.5, 0.7)",
    "x.tril(1)",
    "x.triu(-1)",
    "F.dropout(x, 0.5, False)",
    "F.threshold(x, 0.1, 2.0)",
    "x * torch.heaviside(x.detach(), torch.zeros((), dtype=x.dtype))",
    "x * torch.bucketize(x.detach(), torch.tensor([-1.0, 0.0, 1.0], dtype=x.dtype))",
    "torch.where(x > 0, x, -2 * x)",
    "x.flatten(0, 1)",
    "x.tile(2)",
    "x.movedim(0, -1)",
    "x.transpose(0, -1).contiguous()",
    "x.contiguous().as_strided((2, 2), (1, 2))",
    "F.pixel_unshuffle(x, 2)",
    "torch.cdist(x, x + 1)",
    "torch.linalg.vector_norm(x)",
    "x.mean() * x",
    "x[x.shape[0] // 2 :]",
    "x[: x.shape[0] - 1]",
    "x[::2] * 3",
    "x[..., None]",
    "x * x.shape[0]",
    "x.new_zeros(x.shape) + x",
    "torch.arange(x.shape[-1]).to(x.dtype) * x",
    "torch.cat([x, x.flip(0)], 0)",
    "torch.stack([x, x.sin()], -1)",
)


@step(8)
def function(d: Draw) -> str:
    return f"{d.pick(UNARY)}(x)"


@step(14)
def fixed(d: Draw) -> str:
    return d.chance.choice(SAFE)


@step(6)
def reduction(d: Draw) -> str:
    axis, keep = d.axis, d.flag
    name = d.pick("sum mean amax amin var std logsumexp prod norm median max min nansum")
    if name in ("median", "max", "min"):
        return f"x.{name}({axis}, {keep})[0]"
    if name in ("var", "std"):
        return f"(x.var({axis}, keepdim={keep}, unbiased=False) + 0.1).sqrt()"
    if name == "norm":
        return f"torch.linalg.vector_norm(x, {d.small(1, 2, 3)}, {axis}, {keep})"
    return f"x.{name}({axis}, {keep})"


@step(2)
def two_axes(d: Draw) -> str:
    return f"x.{d.pick('sum mean amax amin logsumexp')}({d.chance.sample(range(d.rank), 2)}, {d.flag})"


@step(2)
def running(d: Draw) -> str:
    name = d.pick("cumsum cumprod logcumsumexp cummax cummin")
    return f"x.{name}({d.axis}){'[0]' if name in ('cummax', 'cummin') else ''}"


@step(3)
def ordered(d: Draw) -> str:
    axis = d.axis
    count = d.chance.randint(1, d.shape[axis])
    return d.chance.choice(
        (
            f"x.sort({axis}, {d.flag})[0]",
            f"x.topk({count}, {axis}, {d.flag})[0]",
            f"x.kthvalue({count}, {axis})[0]",
            f"x.gather({axis}, x.argsort({axis}, stable=True))",
            f"x.gather({axis}, x.argmax({axis}, True))",
        )
    )


@step(3)
def normalised(d: Draw) -> str:
    return f"F.{d.pick('softmax log_softmax softmin')}(x, {d.axis})"


@step(6)
def indexed(d: Draw) -> str:
    axis = d.axis % d.rank
    size, count = d.shape[axis], d.chance.randint(1, 5)
    index = d.indices(size, count)
    wide = tuple(count if i == axis else s for i, s in enumerate(d.shape))
    laid = f"{index}.view({[-1 if i == axis else 1 for i in range(d.rank)]}).expand({list(wide)})"
    source = d.parameter(*wide)
    return d.chance.choice(
        (
            f"x.index_select({axis}, {index})",
            f"x.gather({axis}, {laid})",
            f"torch.take_along_dim(x, {laid}, {axis})",
            f"x.scatter_add({axis}, {laid}, {source})",
            f"x.scatter_reduce({axis}, {laid}, {source}, '{d.pick('sum mean amax prod')}')",
            f"x.index_add({axis}, {index}, {source}, alpha=2)",
            f"x.index_fill({axis}, {index}, 1.5)",
            f"x[{':, ' * axis}{index}] * 2",
            f"x.index_put(({d.indices(d.shape[0], count)},), {source}.flatten()[0] * x[0], accumulate=True)",
            f"x.index_copy({axis}, torch.arange({min(count, size)}), {source}.narrow({axis}, 0, {min(count, size)}))",
        )
    )


@step(6)
def parts(d: Draw) -> str:
    axis = d.axis % d.rank
    size = d.shape[axis]
    start, by = d.chance.randrange(size), d.small(1, 2, 3)
    return d.chance.choice(
        (
            f"x[{':, ' * axis}{start}::{by}]",
            f"x.narrow({axis}, {start}, {d.chance.randint(0, size - start)})",
            f"x.select({axis}, {start})",
            f"x.flip({axis})",
            f"x.roll({start + 1}, {axis})",
            f"torch.cat(x.chunk(2, {axis})[::-1], {axis})",
            f"torch.cat([t * (i + 1) for i, t in enumerate(x.split({max(1, size // 2)}, {axis}))], {axis})",
            f"x.unfold({axis}, {min(size, 2)}, {by})",
            f"x.diff(dim={axis})",
            f"x.rot90({start}, [0, -1])",
            f"x.slice_scatter(x[{':, ' * axis}{start}::{by}] * 3 + 1, {axis}, {start}, None, {by})",
            f"sum(x.unbind({axis}))",
        )
    )


@step(5)
def views(d: Draw) -> str:
    axis = d.axis
    order = d.chance.sample(range(d.rank), d.rank)
    return d.chance.choice(
        (
            f"x.permute({order})",
            f"x.reshape(-1, x.shape[{axis}])",
            f"x.unsqueeze({axis})",
            f"x.unsqueeze(0).expand(2, {', '.join(['-1'] * d.rank)})",
            f"x.repeat_interleave(2, {axis})",
            f"x.repeat({[2 if i == axis % d.rank else 1 for i in range(d.rank)]})",
        )
    )


@step(8)
def binary(d: Draw) -> str:
    shape = [s if d.chance.random() < 0.6 else 1 for s in d.shape][d.chance.randrange(d.rank) :]
    y = d.parameter(*shape)
    return d.chance.choice(
        (
            *(
                f"torch.{n}(x, {y})"
                for n in ["add", "mul", "sub", "maximum", "minimum", "atan2", "hypot", "logaddexp", "copysign"]
            ),
            f"x / ({y}.abs() + 0.5)",
            f"(x.abs() + 0.1) ** {y}",
            f"torch.lerp(x, {y}.expand_as(x), 0.3)",
            f"torch.where(x > {y}, x, {y})",
            f"torch.{d.pick('fmod remainder')}(x, 1.3)",
            f"torch.addcmul(x, x, {y}, value=0.5)",
            f"torch.addcdiv(x, x, {y}.abs() + 1, value=0.5)",
            f"F.cosine_similarity(x, x + {y}, -1)",
            f"torch.clamp(x, min={y})",
            f"(x.abs() + 0.2) ** {d.among(2, 3, 0.5, -1, 0, 1, 2.5, -2)}",
        )
    )


@step(6)
def joined(d: Draw) -> str:
    """With an earlier value."""
    other = d.chance.choice(d.others)
    return d.chance.choice(
        (f"x + {other}", f"x * {other}", f"torch.cat([x, {other}], {d.axis})", f"x @ {other}", f"x + {other}.mean()")
    )


@step(5)
def matmuls(d: Draw) -> str:
    columns = d.small(1, 3, 8, 17)
    w = d.parameter(d.last, columns)
    return d.chance.choice(
        (
            f"F.linear(x, {w}.t(), {d.parameter(columns)})",
            f"x @ {w}",
            f"torch.einsum('...i,ij->...j', x, {w})",
            f"torch.addmm({w}[0], x.flatten(0, -2), {w}, beta=0.5, alpha=2)",
            f"{w}.t() @ x.transpose(-1, -2)",
            f"x @ {w}[:, 0]",
            f"F.bilinear(x, x, {d.parameter(3, d.last, d.last)}, None)",
        )
    )


def _divisor(d: Draw, number: int) -> int:
    return d.chance.choice([n for n in range(1, number + 1) if number % n == 0])


@step(4)
def convolution(d: Draw) -> str:
    axes = d.small(1, 2, 2, 3)
    channels = d.channels(axes)
    groups = _divisor(d, channels)
    out = groups * d.small(1, 2, 3)
    kernel = [d.small(1, 2, 3) for _ in range(axes)]
    if d.flag or axes == 3:
        stride, padding = [[d.small(*of) for _ in kernel] for of in ((1, 2, 3), (0, 1, 2, 3))]
        dilation = [d.small(1, 1, 2) for _ in kernel]
        weight = d.parameter(out, channels // groups, *kernel)
        bias = d.parameter(out) if d.flag else None
        return f"F.conv{axes}d({d.image(axes)}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})"
    weight = d.parameter(channels, out // groups, *kernel)
    stride, padding = ([d.small(*of) for _ in kernel] for of in ((1, 2, 3), (0, 1)))
    return f"F.conv_transpose{axes}d({d.image(axes)}, {weight}, None, {stride}, {padding}, 0, {groups})"


@step(4)
def pooling(d: Draw) -> str:
    axes = d.small(1, 2, 2, 3)
    x = d.image(axes)
    kernel, stride = ([d.small(1, 2, 3) for _ in range(axes)] for _ in range(2))
    padding = [d.chance.randint(0, k // 2) for k in kernel]
    return d.chance.choice(
        (
            f"F.max_pool{axes}d({x}, {kernel}, {stride}, {padding}, 1, {d.flag})",
            f"F.max_pool{axes}d({x}, {kernel}, {stride}, {padding}, 2)",
            f"F.avg_pool{axes}d({x}, {kernel}, {stride}, {padding}, {d.flag}, {d.flag})",
            f"F.adaptive_max_pool{axes}d({x}, {stride})",
            f"F.adaptive_avg_pool{axes}d({x}, {stride})",
        )
    )


@step(4)
def norms(d: Draw) -> str:
    x, c = d.image(2), d.channels(2)
    a, b = (d.parameter(c) for _ in range(2))
    u, v = (d.parameter(d.last) for _ in range(2))
    return d.chance.choice(
        (
            f"F.layer_norm(x, ({d.last},), {u}, {v})",
            f"F.rms_norm(x, ({d.last},), {u})",
            f"F.batch_norm({x}, None, None, {a}, {b}, True)",
            f"F.batch_norm({x}, {a}.detach() * 0 + 0.1, {b}.detach().abs() + 0.2, {a}, {b}, False)",
            f"F.group_norm({x}, {_divisor(d, c)}, {a}, {b})",
            f"F.instance_norm({x}, weight={a}, bias={b})",
            f"F.local_response_norm({x}, 3)",
        )
    )


@step(3)
def padding(d: Draw) -> str:
    a, b = (d.chance.randint(0, max(d.last - 1, 0)) for _ in range(2))
    return d.chance.choice(
        (
            f"F.pad(x, ({a}, {b}), value=0.5)",
            f"F.pad({d.image(1)}, ({a}, {b}), '{d.pick('reflect replicate circular')}')",
            "F.pad(x, (-1, 2))",
        )
    )


@step(3)
def resizing(d: Draw) -> str:
    mode = d.pick("nearest linear bilinear bicubic nearest-exact area trilinear")
    axes = {"linear": 1, "trilinear": 3}.get(mode, 2)
    to = f"scale_factor={d.among(2, 0.5, 1.5)}" if d.flag else f"size={[d.small(1, 2, 5, 7) for _ in range(axes)]}"
    corners = f", align_corners={d.flag}" if "linear" in mode or mode == "bicubic" else ""
    return f"F.interpolate({d.image(axes)}, {to}, mode='{mode}'{corners})"


@step(2)
def sampling(d: Draw) -> str:
    x, grid = d.image(2), d.parameter(1, 3, 4, 2)
    options = f"'{d.pick('bilinear nearest bicubic')}', '{d.pick('zeros border reflection')}', {d.flag}"
    return d.chance.choice(
        (
            f"F.grid_sample({x}, {grid}.expand({x}.shape[0], 3, 4, 2) * 1.7, {options})",
            f"F.unfold({x}, 2, padding=1, stride=2)",
        )
    )


@step(2)
def embedding(d: Draw) -> str:
    index, w = f"{d.indices(7, 10)}.view(2, 5)", d.parameter(7, 4)
    return d.chance.choice(
        (
            f"F.embedding({index}, {w}, padding_idx=2) * x.mean()",
            f"F.embedding_bag({index}, {w}, mode='sum') * x.mean()",
            f"F.one_hot({index}, 7).to(x.dtype) @ {w} * x.mean()",
        )
    )


@step(3)
def attention(d: Draw) -> str:
    x = d.image(2)
    q, k, v = (f"({x} @ {d.parameter(d.last, 8)})" for _ in range(3))
    mask = f"torch.ones({x}.shape[-2], {x}.shape[-2], dtype=torch.bool).tril()" if d.flag else None
    if d.flag:
        return f"F.scaled_dot_product_attention(torch.cat([{q}, {q} * 2], 1), {k}, {v}, {mask}, enable_gqa=True)"
    return f"F.scaled_dot_product_attention({q}, {k}, {v}, {mask}, is_causal={mask is None})"


@step(4)
def losses(d: Draw) -> str:
    rows = 1
    for size in d.shape[:-1]:
        rows *= size
    target = f"torch.tensor({[d.chance.randrange(d.last) for _ in range(rows)]}, dtype=torch.int64)"
    y = d.parameter(*d.shape)
    reduction = f"reduction='{d.pick('mean sum none')}'"
    flat = f"x.reshape(-1, {d.last})"
    return d.chance.choice(
        (
            f"F.cross_entropy({flat}, {target}, {reduction}, label_smoothing={d.among(0.0, 0.1)})",
            f"F.nll_loss({flat}.log_softmax(1), {target}, {reduction})",
            f"F.multi_margin_loss({flat}, {target}, {reduction})",
            f"F.binary_cross_entropy_with_logits(x, {y}.sigmoid().detach(), {reduction})",
            f"F.smooth_l1_loss(x, {y}, {reduction})",
            f"F.huber_loss(x, {y}, {reduction}, delta=0.7)",
            f"F.mse_loss(x, {y}, {reduction})",
            f"F.l1_loss(x, {y}, {reduction})",
            f"F.kl_div(x.log_softmax(-1), {y}.softmax(-1), {reduction})",
            f"F.poisson_nll_loss(x.clamp(max=2), {y}.abs().detach(), {reduction})",
            f"F.soft_margin_loss(x, {y}.sign().detach(), {reduction})",
        )
    )
