"""Functions to differentiate: at least one for each rule, with inputs of named sizes and where they are drawn from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import burn
from burn import ops
from burn.dialect.functions import FUNCTIONS
from burn.tensors import Tensor

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def between(low: float, high: float) -> Draw:
    return lambda rng, shape: rng.uniform(low, high, shape)


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers that differ by at least a tenth: extremes and orders stay as they are nearby."""
    return rng.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 1.03


def apart(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Away from 0, where many functions have a corner."""
    x = rng.standard_normal(shape)
    return x + np.sign(x) * 0.1


@dataclass(frozen=True)
class Case:
    """A case of one rule.

    `function`: of float64 tensors of these shapes, where "n" is a size that varies. `op`: the rule under test. `smooth`:
    its second derivative is not zero nearly everywhere."""

    name: str
    op: str
    function: Callable[..., Tensor]
    shapes: tuple[tuple[Any, ...], ...]
    draw: tuple[Draw, ...] = field(default=())
    smooth: bool = True

    def __str__(self) -> str:
        return self.name

    def arrays(self, rng: np.random.Generator, n: int) -> list[np.ndarray]:
        draws = self.draw or (normal,) * len(self.shapes)
        sizes = [tuple(n if d == "n" else d for d in shape) for shape in self.shapes]
        return [np.asarray(d(rng, s), np.float64) for d, s in zip(draws, sizes, strict=True)]


N3 = ("n", 3)
ONE: dict[str, Draw] = {
    "neg": normal, "abs": apart, "sqrt": between(0.2, 3), "rsqrt": between(0.2, 3), "reciprocal": between(0.3, 2),
    "exp": normal, "expm1": normal, "log": between(0.2, 3), "log1p": between(-0.5, 3), "sin": normal, "cos": normal,
    "tan": between(-1.2, 1.2), "asin": between(-0.8, 0.8), "acos": between(-0.8, 0.8), "atan": normal, "sinh": normal,
    "cosh": normal, "tanh": normal, "asinh": normal, "acosh": between(1.2, 4), "atanh": between(-0.8, 0.8), "erf": normal,
    "sigmoid": normal, "relu": apart, "elu": apart, "selu": apart, "celu": apart, "gelu": normal, "silu": normal,
    "mish": normal, "softplus": normal, "softsign": apart, "leaky_relu": apart, "hard_sigmoid": between(-2, 2),
    "hard_swish": between(-2.5, 2.5), "thresholded_relu": between(1.1, 2),
    "root": between(0.2, 3), "softmax": normal, "log_softmax": normal,
    "lp_norm": normal,
}  # fmt: skip


def _inside(low: float, high: float) -> Draw:
    """Numbers where a function is defined, and away from 0."""
    return apart if math.isinf(low) and math.isinf(high) else between(max(low, -4) + 0.2, min(high, 4) - 0.2)


ONE |= {
    row.name: _inside(*row.domain)
    for row in FUNCTIONS
    if row.arity == 1 and row.derivative is not None and row.name not in ONE
}
STRAIGHT = {"neg", "abs", "relu", "leaky_relu", "hard_sigmoid", "thresholded_relu"}

POSITIVE = between(0.3, 2)
TWO: dict[str, tuple[Draw, Draw]] = {
    "add": (normal, normal), "sub": (normal, normal), "mul": (normal, normal), "div": (normal, POSITIVE),
    "pow": (POSITIVE, normal), "max": (distinct, between(-0.01, 0.01)), "min": (distinct, between(-0.01, 0.01)),
    "atan2": (POSITIVE, POSITIVE), "binary_cross_entropy": (between(0.1, 0.9), between(0.1, 0.9)),
    "fmod": (between(2.1, 2.9), between(0.95, 1.0)), "hypot": (POSITIVE, POSITIVE),
    "mod": (between(-2.9, -2.1), between(0.95, 1.0)), "prelu": (apart, normal),
}  # fmt: skip


def _pool(kind: str, **options: Any) -> Callable[..., Tensor]:
    settings: dict[str, Any] = {
        "window": (1, 3, 2), "strides": (1, 2, 1), "dilations": (1, 1, 2), "low": (0, 1, 0), "high": (0, 1, 1)
    }  # fmt: skip
    return lambda x: ops.window_reduce(x, kind=kind, **{**settings, **options})


def _indices(*values: int) -> Tensor:
    return burn.constant(np.array(values))


CONV: dict[str, Any] = {"strides": (2, 1), "dilations": (1, 2), "low": (1, 0), "high": (0, 2)}

CASES: tuple[Case, ...] = (
    *(Case(n, n, lambda x, n=n: getattr(ops, n)(x), (N3,), (d,), n not in STRAIGHT) for n, d in ONE.items()),
    *(Case(n, n, lambda a, b, n=n: getattr(ops, n)(a, b), (N3, (3,)), d, n != "add") for n, d in TWO.items()),
    Case("gelu by tanh", "gelu", lambda x: ops.gelu(x, approximate="tanh"), (N3,)),
    Case("silu of a scaled operand", "silu", lambda x: ops.silu(x, alpha=1.7), (N3,)),
    Case("mul of sizes that the run tells", "mul", lambda a, b: a * b, (("n", 1), (1, 4))),
    Case("a number and a tensor", "div", lambda a, b: a / b, ((), ("n",)), (normal, POSITIVE)),
    Case("power zero", "pow", lambda a: a ** burn.constant([0.0, 1.0, 2.0], "float64"), (N3,)),
    Case("select", "select", lambda a, b: ops.select(a > b, a * a, b), (N3, (3,)), (distinct, normal), False),
    Case("cast", "cast", lambda a: a.astype("float32").astype("float64") * 0.0 + a, (N3,), (), False),
    Case(
        "clip",
        "clip",
        lambda x, a, b: ops.clip(x, a, b),
        (N3, (), ()),
        (distinct, between(-0.71, -0.7), between(0.5, 0.51)),
        False,
    ),
    Case(
        "clip from one side", "clip", lambda x, a: ops.clip(x, None, a), (N3, ()), (distinct, between(0.5, 0.51)), False
    ),
    # elements moved
    Case("broadcast", "broadcast_to", lambda x: x.broadcast_to((2, *x.shape[:1], 3)), (("n", 1),), (), False),
    Case("reshape", "reshape", lambda x: x.reshape(3, x.shape[0]) ** 2, (N3,)),
    Case("transpose", "transpose", lambda x: x.permute(2, 0, 1) ** 2, (("n", 2, 3),)),
    Case("slice", "slice", lambda x: x[:, 1:6:2] ** 2, (("n", 7),)),
    Case("slice backwards", "slice", lambda x: x[::-1, 5:0:-2] ** 2, (("n", 7),)),
    Case("pad", "pad", lambda x, v: ops.pad(x, v, low=(1, 0), high=(0, 2), interior=(0, 1)) ** 2, (N3, ())),
    Case("concat", "concat", lambda a, b: ops.concat([a, b, a], axis=1) ** 2, (N3, ("n", 2))),
    # reductions
    Case("sum", "reduce", lambda x: x.sum(1) ** 2, (("n", 3, 2),)),
    Case("sum of all", "reduce", lambda x: x.sum() ** 2, (N3,)),
    Case("prod", "reduce", lambda x: x.prod((0, 2)), ((2, "n", 3),)),
    Case("largest", "reduce", lambda x: x.max(1) ** 2, (N3,), (distinct,)),
    Case("smallest", "reduce", lambda x: x.min(0, keepdims=True) ** 2, ((3, "n"),), (distinct,)),
    Case("mean and variance", "reduce", lambda x: x.var(1) + x.mean(1), (("n", 4),)),
    *(
        Case(
            f"running {kind}{' exclusive' * e}{' reverse' * r}",
            "cumulative",
            lambda x, kind=kind, e=e, r=r: ops.cumulative(x, kind=kind, axis=1, exclusive=e, reverse=r) ** 2,
            (("n", 4),),
            (distinct if kind in ("max", "min") else normal,),
        )
        for kind in ("sum", "prod", "max", "min")
        for e in (False, True)
        for r in (False, True)
        if not (e and kind in ("max", "min"))
    ),
    Case("window sum", "window_reduce", _pool("sum"), (("n", 6, 5),), (), False),
    Case(
        "window sum of a rest",
        "window_reduce",
        _pool("sum", high=(0, 0, 2), strides=(1, 3, 2)),
        (("n", 7, 6),),
        (),
        False,
    ),
    Case("window max", "window_reduce", _pool("max"), (("n", 6, 5),), (distinct,), False),
    Case(  # windows that overlap, or lie apart; elements in the padding
        "window max in strides",
        "window_reduce",
        _pool("max", window=(1, 3, 3), strides=(1, 2, 4), dilations=(1, 1, 2), low=(0, 2, 4), high=(0, 2, 3)),
        (("n", 7, 5),),
        (distinct,),
        False,
    ),
    Case(
        "window min", "window_reduce", _pool("min", low=(0, 0, 0), high=(0, 0, 0)), (("n", 6, 5),), (distinct,), False
    ),
    # contractions
    Case("product", "dot_general", lambda a, b: a @ b, (N3, (3, 4))),
    Case("product of stacks", "dot_general", lambda a, b: a @ b, (("n", 2, 3), ("n", 3, 2))),
    Case(
        "einsum", "dot_general", lambda a, b: burn.einsum("xaby,bczay->yxcz", a, b), (("n", 2, 3, 2), (3, 2, 1, 2, 2))
    ),
    Case("conv", "conv", lambda x, w: ops.conv(x, w, **CONV), (("n", 2, 5, 6), (3, 2, 2, 3))),
    Case("conv in groups", "conv", lambda x, w: ops.conv(x, w, groups=2, **CONV), (("n", 4, 5, 6), (6, 2, 2, 2))),
    Case(
        "conv whose kernel has a named size",
        "conv",
        lambda x, w: ops.conv(x, w, strides=(2,), dilations=(3,), low=(2,), high=(1,), groups=2),
        ((2, 4, 11), (2, 2, "n")),
    ),
    Case(
        "conv along one axis",
        "conv",
        lambda x, w: ops.conv(x, w, strides=(3,), dilations=(1,), low=(2,), high=(1,)),
        ((2, 1, 9), (2, 1, 4)),
    ),
    Case(  # strides and dilations with and without a common divisor, a kernel within a stride, rows behind the last window
        "conv in strides",
        "conv",
        lambda x, w: ops.conv(x, w, strides=(2, 3, 3), dilations=(4, 2, 1), low=(3, 0, 1), high=(2, 1, 0), groups=2),
        (("n", 2, 5, 6, 7), (2, 1, 2, 3, 2)),
    ),
    Case(
        "conv_transpose",
        "conv_transpose",
        lambda x, w: ops.conv_transpose(x, w, extra=(1, 0), **CONV),
        (("n", 2, 3, 4), (2, 3, 2, 3)),
    ),
    Case(
        "conv_transpose in groups",
        "conv_transpose",
        lambda x, w: ops.conv_transpose(x, w, strides=(2,), dilations=(1,), low=(1,), high=(-1,), extra=(0,), groups=2),
        (("n", 4, 3), (4, 2, 3)),
    ),
    Case(
        "conv_transpose in more strides than elements",
        "conv_transpose",
        lambda x, w: ops.conv_transpose(
            x, w, strides=(4, 3), dilations=(2, 2), low=(1, 2), high=(0, 1), extra=(3, 0), groups=1
        ),
        (("n", 2, 1, 3), (2, 2, 1, 3)),
    ),
    # indexing
    Case("gather", "gather", lambda x: ops.gather(x, burn.constant([[0, 2], [-1, 0]]), axis=1) ** 2, (N3,)),
    Case(
        "gather_elements",
        "gather_elements",
        lambda x: ops.gather_elements(x, burn.constant([[0, 2, 0, 1]]), axis=1) ** 2,
        (N3,),
    ),
    Case(
        "gather_elements, one of each line",
        "gather_elements",
        lambda x: ops.gather_elements(x, burn.constant([[2], [-3]]), axis=1) ** 2,
        ((2, 3),),
    ),
    Case("gather_nd", "gather_nd", lambda x: ops.gather_nd(x, burn.constant([[0, 1], [0, -1], [0, 1]])) ** 2, (N3,)),
    Case(
        "gather_nd in batches",
        "gather_nd",
        lambda x: ops.gather_nd(x, burn.constant([[[1], [1]], [[0], [2]]]), batch_dims=1) ** 2,
        ((2, 3, 2),),
    ),
    *(
        Case(
            f"scatter_elements {kind}",
            "scatter_elements",
            lambda x, u, kind=kind: ops.scatter_elements(x, burn.constant([[0, 2, 0]]), u, axis=1, reduction=kind) ** 2,
            (N3, (1, 3)),
            (distinct, between(-0.02, 0.02)),
        )
        for kind in ("none", "add", "mul", "max", "min")
    ),
    *(
        Case(
            f"scatter_nd {kind}",
            "scatter_nd",
            lambda x, u, kind=kind: ops.scatter_nd(x, burn.constant([[0], [0]]), u, reduction=kind) ** 2,
            (N3, (2, 3)),
            (distinct, between(-0.02, 0.02)),
        )
        for kind in ("none", "add", "mul", "max", "min")
    ),
    Case(
        "sort",
        "sort",
        lambda x: ops.sort(x, axis=1)[0] * burn.constant([1.0, 5.0, 7.0], "float64"),
        (N3,),
        (distinct,),
        False,
    ),
    Case("root of degree 3", "root", lambda x: ops.root(x, degree=3.0), (N3,), (POSITIVE,)),
    # losses and norms
    Case("nll_loss", "nll_loss", lambda x: ops.nll_loss(x, _indices(1, 0, 2), None, ignore=0), ((3, 4),), (), False),
    Case(
        "nll_loss weighted",
        "nll_loss",
        lambda x, w: ops.nll_loss(x, _indices(1, 0, 2), w, reduction="mean"),
        ((3, 4), (4,)),
        (normal, POSITIVE),
    ),
    *(
        Case(
            f"cross_entropy {kind}",
            "cross_entropy",
            lambda x, kind=kind: ops.cross_entropy(x, burn.constant([[1, 0], [2, 3]]), None, reduction=kind, ignore=3)[
                0
            ],
            ((2, 4, 2),),
        )
        for kind in ("none", "sum", "mean")
    ),
    Case(
        "cross_entropy and its probabilities",
        "cross_entropy",
        lambda x: (
            ops.cross_entropy(x, _indices(1, 0), None)[0] + ops.cross_entropy(x, _indices(1, 0), None)[1].sum() ** 2
        ),
        ((2, 4),),
    ),
    Case("layer_norm", "layer_norm", lambda x, s, b: ops.layer_norm(x, s, b, axis=1) ** 2, (("n", 3, 2), (3, 2), (2,))),
    Case("layer_norm plain", "layer_norm", lambda x: ops.layer_norm(x, None, None) ** 3, (("n", 5),)),
    Case("rms_norm", "rms_norm", lambda x, s: ops.rms_norm(x, s) ** 2, (("n", 5), (5,))),
    Case(
        "batch_norm",
        "batch_norm",
        lambda x, s, b, m, v: ops.batch_norm(x, s, b, m, v) ** 2,
        (("n", 3, 2), (3,), (3,), (3,), (3,)),
        (normal, normal, normal, normal, POSITIVE),
    ),
    Case("variance", "variance", lambda x: ops.variance(x, axes=(0, -1)) ** 2, (("n", 3, 2),)),
    Case(
        "batch_norm by the batch's own statistics",
        "batch_norm",
        lambda x, s, b: ops.batch_norm(x, s, b, x.mean((0, 2)), ops.variance(x, axes=(0, 2))) ** 2,
        (("n", 2, 3), (2,), (2,)),
    ),
    Case("group_norm", "group_norm", lambda x, s, b: ops.group_norm(x, s, b, groups=2) ** 2, (("n", 4, 3), (4,), (4,))),
    Case("instance_norm", "instance_norm", lambda x, s: ops.instance_norm(x, s, None) ** 2, (("n", 2, 4), (2,))),
    Case("lrn", "lrn", lambda x: ops.lrn(x, size=3), (("n", 4, 2),)),
    Case(
        "attention",
        "attention",
        lambda q, k, v, m: ops.attention(q, k, v, m, None, scale=0.5),
        (("n", 4, 3, 2), ("n", 2, 5, 2), ("n", 2, 5, 3), (3, 5)),
    ),
    Case(
        "attention causal",
        "attention",
        lambda q, k, v: ops.attention(q, k, v, None, None, scale=0.7, causal=True, softcap=2.0),
        (("n", 2, 4, 2), ("n", 2, 4, 2), ("n", 2, 4, 2)),
    ),
    Case(
        "rotary_embedding",
        "rotary_embedding",
        lambda x, c, s: ops.rotary_embedding(x, c, s) ** 2,
        (("n", 2, 3, 5), (1, 3, 2), (1, 3, 2)),
    ),
    Case(
        "resize",
        "resize",
        lambda x: burn.nn.Upsample(scale_factor=2.0, mode="bilinear")(x),
        (("n", 1, 3, 2),),
        (),
        False,
    ),
    Case("dft", "dft", lambda x: ops.dft(x, None)[0] ** 2 + ops.dft(x, None)[1] * 2.0, (("n", 6),)),
    # recurrent layers and control flow
    Case(
        "lstm of few steps",
        "lstm",
        lambda x, w, r: ops.lstm(x, w, r, None, None, None, None, None)[0],
        ((3, "n", 2), (1, 8, 2), (1, 8, 2)),
        (),
        False,
    ),
    Case(
        "lstm",
        "lstm",
        lambda x, w, r, b, h: (
            ops.lstm(x, w, r, b, None, h, None, None, direction="bidirectional")[0].sum(1)
            + ops.lstm(x, w, r, b, None, h, None, None, direction="bidirectional")[2].sum()
        ),
        ((11, "n", 2), (2, 8, 2), (2, 8, 2), (2, 16), (2, "n", 2)),
        (),
        False,
    ),
    Case(
        "rnn backwards",
        "rnn",
        lambda x, w, r, b: ops.rnn(x, w, r, b, None, None, direction="reverse")[0],
        ((5, "n", 2), (1, 3, 2), (1, 3, 3), (1, 6)),
    ),
    Case(
        "windows",
        "windows",
        lambda x: ops.windows(x, axis=1, window=(3,), strides=(2,), dilations=(2,)) ** 2,
        (("n", 9),),
    ),
    Case(
        "gru of a length that the run tells",
        "gru",
        lambda x, w, r: ops.gru(x, w, r, None, None, None)[1],
        (("n", 2, 2), (1, 9, 2), (1, 9, 3)),
    ),
    Case(
        "scan", "loop", lambda x, w: burn.scan(lambda c, v: ((c * v + w).tanh(), c * w), x[0], x)[1], (("n", 3), (3,))
    ),
    Case("fori_loop", "loop", lambda x: burn.fori_loop(0, 4, lambda i, s: (s * x).sin(), x), (N3,)),
    Case(
        "while_loop",
        "loop",
        lambda x: burn.while_loop(lambda s: s[0].sum() < 100.0, lambda s: (s[0] * 2.0 + s[1], s[1]), (x * x + 1.0, x))[
            0
        ],
        (N3,),
    ),
    Case("cond", "if", lambda x, y: burn.cond((x.sum() < 1e6), lambda a: (a * y).exp(), lambda a: a, x), (N3, (3,))),
)
