"""The table of functions: of a tensor [rows, 3] whose rows are special points, each row on its own, in burn and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import burn
from burn import nn, ops

INF, NAN = float("inf"), float("nan")

POINTS: dict[str, tuple[float, float, float]] = {
    "zeros": (0, 0, 0),
    "minus zero": (-0.0, 1, -1),
    "one zero": (0, 2, 3),
    "two zeros": (0, 2, 0),
    "ties": (1, 1, 2),
    "all equal": (2, 2, 2),
    "bounds of 3 and 6": (-3, 3, 6),
    "bounds of 1": (-1, 0.5, 1),
    "bounds of 2.5": (-2.5, -0.5, 2.5),
    "saturated": (40, -40, 800),
    "inf": (INF, 1, 2),
    "-inf": (-INF, 1, 2),
    "infs": (INF, INF, 1),
    "all -inf": (-INF, -INF, -INF),
    "nan": (NAN, 1, 2),
    "nan last": (1, 2, NAN),
    "huge": (1e200, -1e200, 1),
    "tiny": (1e-200, -1e-200, 1e-300),
}
"""Rows of arguments, in float64."""

ROWS = np.array(list(POINTS.values()))
OTHER = np.array([1.0, -2.0, 0.5])
TARGET = np.array([1.0, 0.0, 0.25])


def b(array: Any) -> burn.Tensor:
    return burn.constant(np.asarray(array, np.float64))


def t(array: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(array, np.float64))


@dataclass(frozen=True)
class Function:
    """burn: of a burn.Tensor [n, 3]; torch: the same of a torch.Tensor. Both give [n, ..]."""

    burn: Callable[[Any], Any]
    torch: Callable[[Any], Any]


TABLE: dict[str, Function] = {}


def _row(name: str, of_burn: Callable[[Any], Any], of_torch: Callable[[Any], Any]) -> None:
    assert name not in TABLE, name
    TABLE[name] = Function(of_burn, of_torch)


# ---- elements -----------------------------------------------------------------------------------------------------------
for _n in (
    *(
        "abs",
        "neg",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
    ),
    *("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "square"),
    *("sign", "floor", "ceil", "round", "trunc", "frac", "relu", "nan_to_num"),
):
    _row(_n, lambda x, n=_n: getattr(x, n)(), lambda x, n=_n: getattr(torch, n)(x))
ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "relu6": ("relu6", {}), "leaky_relu": ("leaky_relu", {}), "elu": ("elu", {}), "celu": ("celu", {}), "selu": ("selu", {}),
    "gelu": ("gelu", {}), "silu": ("silu", {}), "mish": ("mish", {}), "softplus": ("softplus", {}),
    "softsign": ("softsign", {}), "hard_swish": ("hardswish", {}),
    "log_sigmoid": ("logsigmoid", {}),
}  # fmt: skip
for _n, (_torch, _) in ACTIVATIONS.items():
    _row(_n, lambda x, n=_n: getattr(x, n)(), lambda x, n=_torch: getattr(F, n)(x))
# PyTorch's hardsigmoid rounds 1/6 to float32 in its backward pass
_row("hard_sigmoid", lambda x: x.hard_sigmoid(), lambda x: F.relu6(x + 3.0) / 6.0)
for _n, _layer, _of_torch in (
    ("nn.ELU 0.5", nn.ELU(0.5), lambda x: F.elu(x, 0.5)),
    ("nn.CELU 0.5", nn.CELU(0.5), lambda x: F.celu(x, 0.5)),
    ("nn.GELU tanh", nn.GELU("tanh"), lambda x: F.gelu(x, approximate="tanh")),
    ("nn.Softplus 2", nn.Softplus(2.0), lambda x: F.softplus(x, 2.0)),
    ("nn.Hardtanh", nn.Hardtanh(-3.0, 3.0), lambda x: F.hardtanh(x, -3.0, 3.0)),
    ("nn.ReLU6", nn.ReLU6(), F.relu6),
    ("nn.Hardshrink", nn.Hardshrink(), F.hardshrink),
    ("nn.Softshrink", nn.Softshrink(), F.softshrink),
    ("nn.Tanhshrink", nn.Tanhshrink(), F.tanhshrink),
    ("nn.Threshold", nn.Threshold(1.0, 0.0), lambda x: F.threshold(x, 1.0, 0.0)),
    ("nn.GLU", nn.GLU(), lambda x: F.glu(torch.cat([x, x * t([1, 2, 3])], -1), -1)),
):
    glu = _n == "nn.GLU"
    _row(
        _n,
        (lambda x, f=_layer: f(burn.concat([x, x * b([1, 2, 3])], -1))) if glu else (lambda x, f=_layer: f(x)),
        _of_torch,
    )
_row("prelu", lambda x: x.prelu(b(0.25)), lambda x: F.prelu(x.reshape(-1, 1), t([0.25])).reshape(x.shape))
_row(
    "slope of prelu",
    lambda x: b(OTHER).broadcast_to(*x.shape).prelu(x),
    lambda x: torch.where(t(OTHER) > 0, t(OTHER), x * t(OTHER)),
)
_row("thresholded_relu", lambda x: ops.thresholded_relu(x), lambda x: F.threshold(x, 1.0, 0.0))

# ---- two operands: x is one, the other or both -----------------------------------------------------------------------------
for _n, _of_burn, _of_torch in (
    ("maximum", lambda x, y: x.maximum(y), torch.maximum),
    ("minimum", lambda x, y: x.minimum(y), torch.minimum),
    ("atan2", lambda x, y: x.atan2(y), torch.atan2),
    ("hypot", lambda x, y: x.hypot(y), torch.hypot),
    ("fmod", lambda x, y: x.fmod(y), torch.fmod),
    ("remainder", lambda x, y: x.remainder(y), torch.remainder),
    ("div", lambda x, y: x / y, lambda x, y: x / y),
    ("pow", lambda x, y: x**y, lambda x, y: x**y),
    ("mul", lambda x, y: x * y, lambda x, y: x * y),
):
    _row(f"{_n}(x, c)", lambda x, f=_of_burn: f(x, b([0, 2, 1])), lambda x, f=_of_torch: f(x, t([0, 2, 1])))
    _row(
        f"{_n}(c, x)", lambda x, f=_of_burn: f(b([0, 2, 1]), x), lambda x, f=_of_torch: f(t([0, 2, 1]).expand_as(x), x)
    )
    _row(f"{_n}(x, x)", lambda x, f=_of_burn: f(x, x * 1.0), lambda x, f=_of_torch: f(x, x * 1.0))
for _p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -1.0):
    _row(f"pow {_p}", lambda x, p=_p: x**p, lambda x, p=_p: x**p)
_row("clip", lambda x: x.clip(0.0, 2.0), lambda x: x.clamp(0.0, 2.0))
_row("clip from below", lambda x: x.clip(0.0), lambda x: x.clamp(0.0))
_row("clip from above", lambda x: x.clip(None, 2.0), lambda x: x.clamp(None, 2.0))
_row("clip, bounds crossed", lambda x: x.clip(2.0, 1.0), lambda x: x.clamp(2.0, 1.0))
_row("clip by tensors", lambda x: x.clip(b([0, 1, 2]), b([2, 2, 3])), lambda x: x.clamp(t([0, 1, 2]), t([2, 2, 3])))
_row("where", lambda x: (x > 0).where(x.sqrt(), x), lambda x: torch.where(x > 0, x.sqrt(), x))
_row("lerp", lambda x: x.lerp(b(OTHER), 0.25), lambda x: torch.lerp(x, t(OTHER).expand_as(x), 0.25))

# ---- along the row --------------------------------------------------------------------------------------------------------
for _n, _of_burn, _of_torch in (
    ("sum", lambda x: x.sum(-1), lambda x: x.sum(-1)),
    ("mean", lambda x: x.mean(-1), lambda x: x.mean(-1)),
    ("prod", lambda x: x.prod(-1), lambda x: x.prod(-1)),
    ("max", lambda x: x.max(-1), lambda x: x.amax(-1)),
    ("min", lambda x: x.min(-1), lambda x: x.amin(-1)),
    ("var", lambda x: x.var(-1), lambda x: x.var(-1, correction=0)),
    ("std", lambda x: x.std(-1), lambda x: x.std(-1, correction=0)),
    ("std of 1", lambda x: x[:, :1].std(-1), lambda x: x[:, :1].std(-1, correction=0)),
    ("logsumexp", lambda x: x.logsumexp(-1), lambda x: x.logsumexp(-1)),
    ("softmax", lambda x: x.softmax(-1), lambda x: x.softmax(-1)),
    ("log_softmax", lambda x: x.log_softmax(-1), lambda x: x.log_softmax(-1)),
    ("cumsum", lambda x: x.cumsum(-1), lambda x: x.cumsum(-1)),
    ("cumprod", lambda x: x.cumprod(-1), lambda x: x.cumprod(-1)),
    ("cummax", lambda x: x.cummax(-1), lambda x: x.cummax(-1)[0]),
    ("cummin", lambda x: x.cummin(-1), lambda x: x.cummin(-1)[0]),
    ("sort", lambda x: x.sort(-1), lambda x: torch.sort(x, stable=True, dim=-1)[0]),
    ("topk", lambda x: x.topk(2, -1)[0], lambda x: x.topk(2, -1)[0]),
    ("median", lambda x: x.median(-1), lambda x: x.quantile(0.5, -1)),
    ("nansum", lambda x: x.nansum(-1), lambda x: x.nansum(-1)),
    ("diff", lambda x: x.diff(axis=-1), lambda x: x.diff(dim=-1)),
    ("matmul", lambda x: x @ b(np.arange(6.0).reshape(3, 2)), lambda x: x @ t(np.arange(6.0).reshape(3, 2))),
    ("outer", lambda x: x.unsqueeze(2) * x.unsqueeze(1), lambda x: x.unsqueeze(2) * x.unsqueeze(1)),
    ("normalize", lambda x: x / x.norm(2, -1, True).clip(1e-12), lambda x: F.normalize(x, dim=-1)),
    ("lp_norm 2", lambda x: ops.lp_norm(x), lambda x: _lp(x, 2)),
    ("lp_norm 1", lambda x: ops.lp_norm(x, p=1), lambda x: _lp(x, 1)),
    ("layer_norm", lambda x: nn.LayerNorm(3, affine=False)(x), lambda x: F.layer_norm(x, (3,))),
    ("rms_norm", lambda x: nn.RMSNorm(3, eps=1e-5, affine=False)(x), lambda x: F.rms_norm(x, (3,), eps=1e-5)),
    ("nn.MaxPool1d", lambda x: nn.MaxPool1d(2, 1)(x[:, None]), lambda x: F.max_pool1d(x[:, None], 2, 1)),
    ("nn.AvgPool1d", lambda x: nn.AvgPool1d(2, 1)(x[:, None]), lambda x: F.avg_pool1d(x[:, None], 2, 1)),
    ("nn.LPPool1d 2", lambda x: nn.LPPool1d(2.0, 2, 1)(x[:, None]), lambda x: F.lp_pool1d(x[:, None], 2.0, 2, 1)),
    (
        "nn.LPPool1d 3",
        lambda x: nn.LPPool1d(3.0, 2, 1)(abs(x)[:, None]),
        lambda x: F.lp_pool1d(x.abs()[:, None], 3.0, 2, 1),
    ),
    (
        "nn.AdaptiveMaxPool1d",
        lambda x: nn.AdaptiveMaxPool1d(2)(x[:, None]),
        lambda x: F.adaptive_max_pool1d(x[:, None], 2),
    ),
    ("gather", lambda x: x.gather(1, _index(x)), lambda x: x.gather(1, torch.tensor([[2, 2, 0]]).expand(len(x), 3))),
    ("scatter add", lambda x: _scattered(x, "add"), lambda x: _scattered_torch(x, "sum")),
    ("scatter mul", lambda x: _scattered(x, "mul"), lambda x: _scattered_torch(x, "prod")),
    ("scatter max", lambda x: _scattered(x, "max"), lambda x: _scattered_torch(x, "amax")),
    (
        "cosine_similarity",
        lambda x: x.cosine_similarity(b(OTHER), -1),
        lambda x: F.cosine_similarity(x, t(OTHER).expand_as(x), -1),
    ),
    ("cdist", lambda x: (x - b(ROWS[0])).norm(2, -1), lambda x: torch.cdist(x[:, None], t(ROWS[:1])[None])[:, 0, 0]),
    ("nn.PairwiseDistance", lambda x: nn.PairwiseDistance()(x, b(OTHER)), lambda x: F.pairwise_distance(x, t(OTHER))),
):
    _row(_n, _of_burn, _of_torch)
for _p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF, -INF, -1.0):
    _row(f"norm {_p}", lambda x, p=_p: x.norm(p, -1), lambda x, p=_p: torch.linalg.vector_norm(x, p, -1))


def _lp(x: torch.Tensor, p: int) -> torch.Tensor:
    return F.normalize(x, p=p, dim=-1, eps=0.0)


def _index(x: burn.Tensor) -> burn.Tensor:
    return burn.constant(np.array([[2, 2, 0]])).broadcast_to(x.shape[0], 3)


def _scattered(x: burn.Tensor, reduction: str) -> burn.Tensor:
    start = b(np.full((1, 2), 2.0)).broadcast_to(x.shape[0], 2)
    return start.scatter(1, burn.constant(np.array([[1, 0, 1]])).broadcast_to(x.shape[0], 3), x, reduction)


def _scattered_torch(x: torch.Tensor, reduction: str) -> torch.Tensor:
    start = t(np.full((1, 2), 2.0)).expand(len(x), 2)
    return start.scatter_reduce(1, torch.tensor([[1, 0, 1]]).expand(len(x), 3), x, reduction)


# ---- losses -----------------------------------------------------------------------------------------------------------------
def _loss(name: str, layer: Any, of_torch: Callable[..., Any], target: Any) -> None:
    _row(
        name,
        lambda x: layer(x, b(target).broadcast_to(*x.shape)),
        lambda x: of_torch(x, t(target).expand_as(x), reduction="none"),
    )


NONE: dict[str, Any] = {"reduction": "none"}
SIGNS = np.array([1.0, -1.0, 1.0])
for _n, _layer, _of_torch, _target in (
    ("nn.MSELoss", nn.MSELoss(**NONE), F.mse_loss, TARGET),
    ("nn.L1Loss", nn.L1Loss(**NONE), F.l1_loss, TARGET),
    ("nn.HuberLoss", nn.HuberLoss(**NONE), F.huber_loss, TARGET),
    ("nn.SmoothL1Loss", nn.SmoothL1Loss(**NONE), F.smooth_l1_loss, TARGET),
    (
        "nn.SmoothL1Loss 0",
        nn.SmoothL1Loss(0.0, **NONE),
        lambda x, y, reduction: F.smooth_l1_loss(x, y, beta=0.0, reduction=reduction),
        TARGET,
    ),
    ("nn.BCEWithLogitsLoss", nn.BCEWithLogitsLoss(**NONE), F.binary_cross_entropy_with_logits, TARGET),
    ("nn.SoftMarginLoss", nn.SoftMarginLoss(**NONE), F.soft_margin_loss, SIGNS),
    ("nn.HingeEmbeddingLoss", nn.HingeEmbeddingLoss(**NONE), F.hinge_embedding_loss, SIGNS),
    ("nn.PoissonNLLLoss", nn.PoissonNLLLoss(**NONE), F.poisson_nll_loss, TARGET),
    ("nn.KLDivLoss", nn.KLDivLoss(**NONE), F.kl_div, TARGET),
):
    _loss(_n, _layer, _of_torch, _target)
_row(
    "nn.BCELoss of a sigmoid",
    lambda x: nn.BCELoss(**NONE)(x.sigmoid(), b(TARGET).broadcast_to(*x.shape)),
    lambda x: F.binary_cross_entropy(x.sigmoid().nan_to_num(0.5), t(TARGET).expand_as(x), reduction="none"),
)
_row(
    "nn.CrossEntropyLoss",
    lambda x: nn.CrossEntropyLoss(**NONE)(x, burn.constant(np.full(len(ROWS), 2))),
    lambda x: F.cross_entropy(x, torch.full((len(x),), 2), reduction="none"),
)
_row(
    "nn.MultiMarginLoss",
    lambda x: nn.MultiMarginLoss(**NONE)(x, burn.constant(np.full(len(ROWS), 1))),
    lambda x: F.multi_margin_loss(x, torch.full((len(x),), 1), reduction="none"),
)
_row(
    "nn.MarginRankingLoss",
    lambda x: nn.MarginRankingLoss(1.0, **NONE)(x, b(OTHER).broadcast_to(*x.shape), b(SIGNS).broadcast_to(*x.shape)),
    lambda x: F.margin_ranking_loss(x, t(OTHER).expand_as(x), t(SIGNS).expand_as(x), 1.0, reduction="none"),
)
_row(
    "nn.CosineEmbeddingLoss",
    lambda x: nn.CosineEmbeddingLoss(**NONE)(x, b(OTHER).broadcast_to(*x.shape), b(np.ones(len(ROWS)))),
    lambda x: F.cosine_embedding_loss(x, t(OTHER).expand_as(x), torch.ones(len(x)), reduction="none"),
)
_row(
    "nn.TripletMarginLoss",
    lambda x: nn.TripletMarginLoss(**NONE)(x, x * 1.0, b(OTHER).broadcast_to(*x.shape)),
    lambda x: F.triplet_margin_loss(x, x * 1.0, t(OTHER).expand_as(x), reduction="none"),
)
_row(
    "nn.GaussianNLLLoss",
    lambda x: nn.GaussianNLLLoss(**NONE)(x * 0.5, b(OTHER).broadcast_to(*x.shape), abs(x)),
    lambda x: F.gaussian_nll_loss(x * 0.5, t(OTHER).expand_as(x), x.abs(), reduction="none"),
)
