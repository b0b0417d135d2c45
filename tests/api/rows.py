"""The tensor API as a table: for every name what it takes, what numpy says, and in which element types it is supported.

`test_functions.py` checks each row on random sizes, traced and lazy; `docs/gen.py` prints names and element types from it.

A row's `use` calls a function given to it: burn's, and then numpy's `reference`, whose arguments are the same. The letters of
`inputs` are sizes, drawn anew for every example: "ab" is a matrix, "" a scalar; digits stand for themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTS = ("int64", "int32", "int16", "int8")
UINTS = ("uint64", "uint32", "uint16", "uint8")
BOOL = ("bool",)
REALS = FLOATS + INTS + UINTS
ALL = REALS + BOOL
SINGLE = ("float64", "float32")

SIGNED = FLOATS + INTS


@dataclass(frozen=True)
class Row:
    """One name and its cases.

    `dtypes`: of the inputs that `domain` draws. `result`: "same", "float" (integers become float32), "sum" (integers and bools
    become int64 or uint64), or an element type. `least`: the smallest size drawn. `exact`: numpy computes in the element
    type itself, rather than in float64. `where`: in burn ("") or one of its modules."""

    name: str
    inputs: tuple[str, ...]
    dtypes: tuple[str, ...]
    reference: Callable[..., Any]
    use: Callable[..., Any]
    result: str = "same"
    domain: str = "any"
    least: int = 0
    exact: bool = False
    tolerance: float = 1.0
    where: str = ""
    traced: bool = True

    @property
    def key(self) -> str:
        return f"{self.where}.{self.name}" if self.where else self.name


ROWS: list[Row] = []


def plain(f: Callable[..., Any], *xs: Any) -> Any:
    return f(*xs)


def row(name: str, inputs: str, dtypes: tuple[str, ...], reference: Any = None, use: Any = plain, **facts: Any) -> None:
    """Enters one name; the reference is numpy's function of that name unless one is given."""
    ROWS.append(Row(name, tuple(inputs.split(",")), dtypes, reference or getattr(np, name), use, **facts))


def rows(names: str, inputs: str, dtypes: tuple[str, ...], **facts: Any) -> None:
    for name in names.split():
        row(name, inputs, dtypes, **facts)


# ---- functions of elements ---------------------------------------------------------------------------------------------
rows("exp expm1 sin cos tan sinh cosh tanh", "ab", ALL, result="float", domain="small")
row("exp2", "ab", ALL, result="float", domain="small")
for _arc in ("a", "arc"):
    row(f"{_arc}sin", "ab", ALL, np.arcsin, result="float", domain="unit")
    row(f"{_arc}cos", "ab", ALL, np.arccos, result="float", domain="unit")
    row(f"{_arc}tan", "ab", ALL, np.arctan, result="float")
    row(f"{_arc}tan2", "ab,b", REALS, np.arctan2, result="float")
    row(f"{_arc}sinh", "ab", ALL, np.arcsinh, result="float")
    row(f"{_arc}cosh", "ab", ALL, np.arccosh, result="float", domain="above one")
    row(f"{_arc}tanh", "ab", FLOATS, np.arctanh, result="float", domain="unit")
rows("log log2 log10 log1p sqrt reciprocal", "ab", ALL, result="float", domain="positive")
row("rsqrt", "ab", ALL, lambda x: 1 / np.sqrt(x), result="float", domain="positive")
row("square", "ab", REALS)
row("erf", "ab", ALL, np.vectorize(math.erf, otypes=[np.float64]), result="float")
rows("deg2rad rad2deg", "ab", ALL, result="float")
rows("floor ceil trunc round", "ab", REALS, domain="halves")
row("frac", "ab", FLOATS, lambda x: x - np.trunc(x), domain="halves")
rows("sign", "ab", REALS, domain="halves")
row("signbit", "ab", REALS, result="bool", domain="special")
row("abs", "ab", REALS)
row("neg", "ab", REALS, np.negative)
row("negative", "ab", REALS)
rows("isnan isinf isfinite", "ab", ALL, result="bool", domain="special")


def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """numpy's, which does not know the limits of bfloat16."""
    top = float(ml_dtypes.finfo(x.dtype).max)
    wide = np.nan_to_num(x.astype(np.float64), nan=nan, posinf=posinf or top, neginf=neginf or -top)
    return wide.astype(x.dtype)


row(
    "nan_to_num",
    "ab",
    FLOATS,
    nan_to_num,
    domain="special",
    exact=True,
    use=lambda f, x: [f(x), f(x, nan=1.0, posinf=2.0, neginf=3.0)],
)
row("add", "ab,b", REALS)
row("sub", "ab,b", REALS, np.subtract)
row("subtract", "ab,ab", REALS)
row("mul", "ab,b", REALS, np.multiply)
row("multiply", "b,ab", REALS)
row("div", "ab,b", REALS, np.divide, result="float", domain="positive")
row("divide", "ab,ab", REALS, result="float", domain="positive")
row("floor_divide", "ab,b", SINGLE + INTS + UINTS, exact=True, domain="not zero")
rows("remainder mod divmod", "ab,b", SINGLE + INTS + UINTS, exact=True, domain="not zero")
row("fmod", "ab,b", SINGLE + INTS + UINTS, exact=True, domain="not zero")
row("pow", "ab", REALS, np.power, use=lambda f, x: [f(x, 2), f(x, 3)])
row("power", "ab,ab", FLOATS, domain="positive")
row("hypot", "ab,b", REALS, result="float")
row("copysign", "ab,b", REALS, result="float", domain="special", exact=True)
row("logaddexp", "ab,b", FLOATS)
row("nextafter", "ab,b", SINGLE, domain="special", exact=True)
rows("maximum minimum", "ab,b", ALL)
row("clip", "ab", REALS, use=lambda f, x: [f(x, 1, 3), f(x, None, 2), f(x, 2, None)])
row("clamp", "ab,,", REALS, np.clip, domain="positive")
row("lerp", "ab,ab,b", FLOATS, lambda a, b, w: a + w * (b - a))
rows("equal not_equal", "ab,b", ALL, result="bool", domain="few")
rows("less less_equal greater greater_equal", "ab,b", ALL, result="bool", domain="few")
for _short, _long in {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}.items():
    row(_short, "ab,ab", ALL, getattr(np, _long), result="bool", domain="few")
rows("logical_and logical_or logical_xor", "ab,b", ALL, result="bool", domain="few")
row("logical_not", "ab", ALL, result="bool", domain="few")
rows("bitwise_and bitwise_or bitwise_xor", "ab,b", INTS + UINTS + BOOL)
rows("bitwise_not invert", "ab", INTS + UINTS + BOOL)
rows(
    "left_shift right_shift",
    "ab",
    INTS + UINTS,
    use=lambda f, x: [f(x, x.dtype.type(3) if isinstance(x, np.ndarray) else 3)],
)
row("isclose", "ab,b", FLOATS, result="bool", domain="special", use=lambda f, x, y: [f(x, y), f(x, x, equal_nan=True)])
row("allclose", "ab,b", SINGLE, result="bool", domain="few")
row("array_equal", "ab,ab", ALL, result="bool", domain="few", use=lambda f, x, y: [f(x, y), f(x, x), f(x, x[None])])
row("where", "ab,ab,b", REALS, lambda c, x, y: np.where(c != 0, x, y), use=lambda f, c, x, y: f(c != 0, x, y))
row("astype", "ab", ALL, lambda x, d: x.astype(d), use=lambda f, x: f(x, "int64"), result="int64")
row("bitcast", "ab", ("int32", "uint32"), lambda x, d: x.view(d), use=lambda f, x: f(x, "float32"), result="float32")


# ---- activations -------------------------------------------------------------------------------------------------------
def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any, beta: float = 1.0) -> Any:
    return np.log1p(np.exp(-np.abs(beta * x))) / beta + np.maximum(x, 0)


def gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))


def softmax(x: Any, axis: int = -1) -> Any:
    powers = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


def log_softmax(x: Any, axis: int = -1) -> Any:
    below = x - x.max(axis, keepdims=True, initial=-np.inf)
    return below - np.log(np.exp(below).sum(axis, keepdims=True))


def logsumexp(x: Any, axis: int | None = None) -> Any:
    top = x.max(axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    return (np.log(np.exp(x - top).sum(axis, keepdims=True)) + top).squeeze(axis)


def elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


row("relu", "ab", REALS, lambda x: np.maximum(x, 0))
row("relu6", "ab", REALS, lambda x: np.clip(x, 0, 6))
row("leaky_relu", "ab", FLOATS, lambda x, a=0.01: np.where(x < 0, a * x, x), use=lambda f, x: [f(x), f(x, 0.2)])
row("prelu", "ab,b", FLOATS, lambda x, s: np.where(x < 0, s * x, x))
row("elu", "ab", FLOATS, elu, use=lambda f, x: [f(x), f(x, 0.5)])
row("celu", "ab", FLOATS, lambda x, a=1.0: np.maximum(x, 0) + a * np.expm1(np.minimum(x, 0) / a))
row("selu", "ab", FLOATS, lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772))
row("gelu", "ab", FLOATS, gelu, use=lambda f, x: [f(x), f(x, "tanh")])
row("silu", "ab", FLOATS, lambda x: x * sigmoid(x))
row("mish", "ab", FLOATS, lambda x: x * np.tanh(softplus(x)))
row("sigmoid", "ab", ALL, sigmoid, result="float")
row("log_sigmoid", "ab", FLOATS, lambda x: -softplus(-x))
row("hard_sigmoid", "ab", FLOATS, lambda x: np.clip(x / 6 + 0.5, 0, 1))
row("hard_swish", "ab", FLOATS, lambda x: x * np.clip(x / 6 + 0.5, 0, 1))
row("softplus", "ab", FLOATS, softplus, use=lambda f, x: [f(x), f(x, 2.0)])
row("softsign", "ab", FLOATS, lambda x: x / (1 + np.abs(x)))
row("softmax", "ab", FLOATS, softmax, use=lambda f, x: [f(x), f(x, 0)])
row("log_softmax", "ab", FLOATS, log_softmax, tolerance=4)

# ---- shapes ------------------------------------------------------------------------------------------------------------
MOVED = {"exact": True}
row(
    "reshape",
    "abc",
    ALL,
    lambda x, *s: x.reshape(s),
    use=lambda f, x: [f(x, x.shape[0] * x.shape[1], x.shape[2])],
    **MOVED,
)
row("flatten", "abc", ALL, lambda x: x.reshape(-1), **MOVED)
row("ravel", "abc", ALL, **MOVED)
row(
    "unflatten",
    "abc",
    ALL,
    lambda x, _, *s: x[:, :, None],
    use=lambda f, x: f(x, 1, x.shape[1], 1) if not isinstance(x, np.ndarray) else x[:, :, None],
    **MOVED,
)
rows("clone detach contiguous", "ab", ALL, reference=lambda x: x, **MOVED)
row("t", "ab", ALL, np.transpose, **MOVED)
row("squeeze", "ab", ALL, use=lambda f, x: f(x[:, None], 1), least=2, **MOVED)
row("unsqueeze", "ab", ALL, np.expand_dims, use=lambda f, x: [f(x, 0), f(x, -1)], **MOVED)
row("expand_dims", "ab", ALL, use=lambda f, x: f(x, 1), **MOVED)
row("atleast_1d", "ab,", ALL, use=lambda f, x, y: [f(x), f(y)], **MOVED)
row("atleast_2d", "ab,a,", ALL, use=lambda f, x, y, z: [f(x), f(y), f(z)], **MOVED)
row("permute", "abc", ALL, lambda x, *p: x.transpose(p), use=lambda f, x: [f(x, 2, 0, 1), f(x, 0, 2, 1)], **MOVED)
row("transpose", "abc", ALL, np.swapaxes, use=lambda f, x: f(x, 0, -1), **MOVED)
row("swapaxes", "abc", ALL, use=lambda f, x: f(x, 1, 2), **MOVED)
row("moveaxis", "abc", ALL, use=lambda f, x: [f(x, 0, -1), f(x, (0, 1), (-1, 0))], **MOVED)
row("broadcast_to", "bc", ALL, lambda x, *s: np.broadcast_to(x, s), use=lambda f, x: f(x, 3, *x.shape), **MOVED)
row("expand", "bc", ALL, lambda x, *s: np.broadcast_to(x, (3, *x.shape)), use=lambda f, x: f(x, 3, -1, -1), **MOVED)
row("narrow", "ab", ALL, lambda x, *_: x[:, 1:3], use=lambda f, x: f(x, 1, 1, 2), least=3, **MOVED)
row("flip", "abc", ALL, use=lambda f, x: [f(x), f(x, 1), f(x, (0, -1))], **MOVED)
row("roll", "ab", ALL, use=lambda f, x: [f(x, 2), f(x, -1, 1), f(x, (1, 3), (0, 1))], **MOVED)
row("rot90", "ab", ALL, use=lambda f, x: [f(x), f(x, 2), f(x, 3, (1, 0))], **MOVED)
row("repeat", "ab", ALL, use=lambda f, x: [f(x, 3), f(x, 2, 0)], **MOVED)
row("tile", "ab", ALL, lambda x, *r: np.tile(x, r), use=lambda f, x: [f(x, 2, 3), f(x, 2, 1, 1)], **MOVED)
row(
    "pad",
    "ab",
    ALL,
    least=3,
    use=lambda f, x: [f(x, ((1, 2), (0, 3))), *(f(x, ((2, 1), (0, 2)), mode) for mode in ("edge", "reflect", "wrap"))],
    **MOVED,
)
row(
    "unfold",
    "ab",
    ALL,
    lambda x, _, n, s: np.lib.stride_tricks.sliding_window_view(x, n, 1)[:, ::s],
    use=lambda f, x: f(x, 1, 3, 2),
    least=3,
    **MOVED,
)
row("split", "ab", ALL, least=3, use=lambda f, x: [*f(x, [1, 3]), *f(x, [2], 1)], **MOVED)
row("array_split", "ab", ALL, use=lambda f, x: [*f(x, 3), *f(x, 2, 1), *f(x, [1, 3])], **MOVED)
row(
    "split_with_sizes",
    "ab",
    ALL,
    lambda x, _, axis: [x[:, :2], x[:, 2:]],
    use=lambda f, x: [*f(x, [2, x.shape[1] - 2], 1)],
    least=2,
    **MOVED,
)
row(
    "chunk",
    "ab",
    ALL,
    lambda x, n, axis: np.array_split(x, n, axis),
    use=lambda f, x: [*f(x, 2, 1)],
    traced=False,
    least=2,
    **MOVED,
)
row(
    "unbind",
    "ab",
    ALL,
    lambda x, axis=0: [x[i] for i in range(len(x))],
    use=lambda f, x: [*f(x)],
    traced=False,
    least=1,
    **MOVED,
)
row("diagonal", "abc", ALL, least=2, use=lambda f, x: [f(x), f(x, 1, 1, 2), f(x, -2)], **MOVED)
row("diag", "a", ALL, use=lambda f, x: [f(x), f(x, 2), f(x, -1)], **MOVED)
row("tril", "ab", ALL, use=lambda f, x: [f(x), f(x, -1), f(x, 2)], **MOVED)
row("triu", "ab", ALL, use=lambda f, x: [f(x), f(x, -1), f(x, 2)], **MOVED)
row(
    "concat",
    "ab,cb",
    ALL,
    lambda xs, axis=0: np.concatenate(xs, axis),
    use=lambda f, x, y: [f([x, y]), f([x, x], 1)],
    **MOVED,
)
row("concatenate", "ab,cb", ALL, use=lambda f, x, y: f([x, y, x]), **MOVED)
row("cat", "ab,ac", ALL, np.concatenate, use=lambda f, x, y: f([x, y], -1), **MOVED)
row("stack", "ab,ab", ALL, use=lambda f, x, y: [f([x, y]), f([x, y], -1)], **MOVED)
row("hstack", "ab,ac", ALL, use=lambda f, x, y: f([x, y]), **MOVED)
row("vstack", "b,ab", ALL, use=lambda f, x, y: f([x, y]), **MOVED)

# ---- reductions --------------------------------------------------------------------------------------------------------
AXES: dict[str, Any] = {"use": lambda f, x: [f(x), f(x, 0), f(x, (0, -1), keepdims=True)]}
row("sum", "abc", ALL, result="sum", **AXES)
row("prod", "abc", ALL, result="sum", domain="near one", **AXES)
row("mean", "abc", ALL, result="float", least=1, **AXES)
rows("max min amax amin", "abc", ALL, least=1, **AXES)
rows("any all", "abc", ALL, result="bool", domain="few", **AXES)
row(
    "count_nonzero",
    "abc",
    ALL,
    result="int64",
    domain="few",
    use=lambda f, x: [f(x), f(x, 1), f(x, (0, -1), keepdims=True)],
)
rows(
    "argmax argmin",
    "abc",
    ALL,
    result="int64",
    least=1,
    domain="few",
    use=lambda f, x: [f(x), f(x, 1), f(x, -1, keepdims=True)],
)
rows("nansum nanprod", "abc", ALL, result="sum", domain="gaps", **AXES)
row("nanmean", "abc", ALL, result="float", domain="gaps", least=1, **AXES)
rows("nanmax nanmin", "abc", ALL, domain="gaps", least=1, **AXES)
rows("cumsum", "ab", ALL, result="sum", use=lambda f, x: [f(x), f(x, 1)], tolerance=2)
rows("cumprod", "ab", ALL, result="sum", domain="near one", use=lambda f, x: [f(x), f(x, 0)], tolerance=2)
row("cummax", "ab", ALL, np.maximum.accumulate, use=lambda f, x: f(x, 1))
row("cummin", "ab", ALL, np.minimum.accumulate, use=lambda f, x: f(x, 0))
row("diff", "ab", ALL, least=1, use=lambda f, x: [f(x), f(x, axis=0)])
rows(
    "var std",
    "abc",
    REALS,
    result="float",
    least=2,
    use=lambda f, x: [f(x), f(x, 1), f(x, (0, -1), ddof=1)],
    tolerance=2,
)
row("median", "ab", REALS, result="float", least=1, use=lambda f, x: [f(x), f(x, 0), f(x, -1, keepdims=True)])
row("quantile", "ab", SINGLE + INTS, result="float", least=1, use=lambda f, x: [f(x, 0.3), f(x, [0.0, 0.75, 1.0], 1)])
row("percentile", "ab", SINGLE + INTS, result="float", least=1, use=lambda f, x: [f(x, 30), f(x, [0, 75, 100], 1)])
row(
    "average",
    "ab,ab,b",
    REALS,
    result="float",
    domain="positive",
    least=1,
    use=lambda f, x, w, v: [f(x), f(x, 0), f(x, None, w), f(x, 0, w), f(x, -1, v), f(x, 1, v, keepdims=True)],
    tolerance=2,
)
row(
    "logsumexp",
    "ab",
    FLOATS,
    logsumexp,
    least=1,
    use=lambda f, x: [f(x), f(x, 1)],
)
row(
    "norm",
    "ab",
    REALS,
    lambda x, p, axis=None: np.linalg.norm(x.reshape(-1) if axis is None else x, p, 0 if axis is None else axis),
    result="float",
    least=1,
    use=lambda f, x: [f(x, 2), f(x, 1, 0), f(x, math.inf, 1), f(x, 3, 1)],
)
row(
    "bincount",
    "a",
    ("int64", "int32", "uint8"),
    lambda x, n: np.bincount(x, minlength=n),
    result="int64",
    domain="index 7",
    use=lambda f, x: f(x, 7),
)

# ---- contractions ------------------------------------------------------------------------------------------------------
row("matmul", "abc,acd", REALS, use=lambda f, x, y: [f(x, y)])
row("mm", "ab,bc", REALS, np.matmul)
row("bmm", "abc,acd", FLOATS, np.matmul)
row("dot", "ab,bc", REALS, use=lambda f, x, y: [f(x, y), f(x, y[:, 0])], least=1)
row("vdot", "ab,ab", REALS)
row("inner", "ab,cb", REALS)
row("outer", "a,b", REALS)
row("kron", "ab,bc", REALS)
row("matvec", "abc,c", FLOATS, lambda x, v: (x @ v[:, None])[..., 0])
row("tensordot", "abc,bcd", REALS, use=lambda f, x, y: [f(x, y), f(x, y, ([1], [0]))])
row("cross", "a3,a3", SIGNED)
row(
    "cosine_similarity",
    "ab,ab",
    FLOATS,
    lambda x, y: (x * y).sum(-1) / np.maximum(np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1), 1e-8),
    least=1,
    domain="positive",
)
row(
    "einsum",
    "ab,bc",
    REALS,
    lambda e, *xs: np.einsum(e, *xs),
    use=lambda f, x, y: [f("ab,bc->ac", x, y), f("ij,jk->k", x, y), f("ij->ji", x)],
)

# ---- sorting and searching ---------------------------------------------------------------------------------------------
row("sort", "ab", ALL, use=lambda f, x: [f(x), f(x, 0)], exact=True)
row(
    "argsort",
    "ab",
    ALL,
    lambda x, axis=-1: np.argsort(x, axis, kind="stable"),
    result="int64",
    domain="few",
    use=lambda f, x: [f(x), f(x, 0)],
)
row(
    "sort_with_indices",
    "ab",
    ALL,
    lambda x: (np.sort(x), np.argsort(x, kind="stable")),
    use=lambda f, x: [f(x)[0]],
    exact=True,
)
row(
    "topk",
    "ab",
    REALS,
    lambda x, k: np.sort(x)[None, :, ::-1][..., :k],
    least=3,
    use=lambda f, x: [f(x, 3)[0]],
    exact=True,
)
row("isin", "ab,c", REALS, result="bool", domain="few", use=lambda f, x, y: [f(x, y), f(x, y, invert=True)])
row(
    "searchsorted",
    "a,bc",
    REALS,
    result="int64",
    domain="few",
    use=lambda f, x, v: [f(_sorted(x), v), f(_sorted(x), v, "right")],
)
row("argwhere", "ab", ALL, result="int64", domain="few")
row("nonzero", "ab", ALL, result="int64", domain="few", use=lambda f, x: [*f(x)])
row("masked_select", "ab,ab", ALL, lambda x, m: x[m], domain="few", use=lambda f, x, y: f(x, y != 0), exact=True)
row("unique", "ab", ALL, domain="few", exact=True)
row(
    "unique_with_counts",
    "ab",
    REALS,
    lambda x: [np.unique(x), *np.unique(x, return_index=True, return_counts=True)[1:]][:1],
    domain="few",
    use=lambda f, x: [f(x)[0]],
    exact=True,
)
row(
    "take",
    "ab,cd",
    ALL,
    lambda x, i, axis=None: np.take(x, i, axis),
    least=1,
    use=lambda f, x, i: [f(x, _at(i, x.shape[0]), 0), f(x, _at(i, x.shape[1]), 1)],
    domain="few",
    exact=True,
)
row(
    "index_select",
    "ab,c",
    ALL,
    lambda x, axis, i: np.take(x, i, axis),
    least=1,
    use=lambda f, x, i: f(x, 1, _at(i, x.shape[1])),
    domain="few",
    exact=True,
)
row(
    "gather",
    "ab,ab",
    ALL,
    lambda x, axis, i: np.take_along_axis(x, i, axis),
    least=1,
    use=lambda f, x, i: f(x, 1, _at(i, x.shape[1])),
    domain="few",
    exact=True,
)
row("take_along_axis", "ab,cb", ALL, least=1, use=lambda f, x, i: f(x, _at(i, x.shape[0]), 0), domain="few", exact=True)
row(
    "masked_fill",
    "ab,b",
    ALL,
    lambda x, m, v: np.where(m, np.asarray(v, x.dtype), x),
    domain="few",
    use=lambda f, x, y: f(x, y != 0, x.dtype in ("bool", np.bool_) or 3),
    exact=True,
)


def _scattered(x: Any, axis: int, i: Any, v: Any, reduction: str = "none") -> Any:
    out = x.copy()
    indices = np.indices(i.shape)
    {"none": np.ndarray.__setitem__, "add": np.add.at}[reduction](
        out, tuple(i if k == axis else p for k, p in enumerate(indices)), v
    )
    return out


row(
    "scatter",
    "ab,ab",
    REALS,
    _scattered,
    least=1,
    domain="few",
    use=lambda f, x, y: [f(x, 1, _at(y, 1), y, "add")],
    exact=True,
)
row(
    "put_along_axis",
    "ab,ab",
    ALL,
    lambda x, i, v, axis: _scattered(x, axis, i, v),
    least=1,
    domain="few",
    use=lambda f, x, y: f(x, _at(y, 1) + x.shape[0] - 1, x, 0),
    exact=True,
)


def _sorted(x: Any) -> Any:
    return np.sort(x) if isinstance(x, np.ndarray) else x.sort()


def _at(x: Any, size: Any) -> Any:
    """Integers made from the elements, in range for an axis of this size."""
    if isinstance(x, np.ndarray):
        return np.abs(np.trunc(x.astype(np.float64))).astype(np.int64) % size
    return x.double().trunc().abs().int() % size


# ---- creation: of x only the sizes are used ----------------------------------------------------------------------------
def _typed(f: Callable[..., Any], x: Any, *arguments: Any) -> Any:
    """f(.., dtype=that of x), for numpy without the dtype: the test converts what it reckons in float64."""
    return f(*arguments) if isinstance(x, np.ndarray) else f(*arguments, dtype=x.dtype)


row("zeros", "ab", ALL, use=lambda f, x: _typed(f, x, x.shape))
row("ones", "ab", ALL, use=lambda f, x: _typed(f, x, x.shape))
row("full", "ab", REALS, use=lambda f, x: _typed(f, x, x.shape, 3))
row("zeros_like", "ab", ALL)
row("ones_like", "ab", ALL)
row("full_like", "ab", REALS, use=lambda f, x: f(x, 3))
row("arange", "a", REALS, use=lambda f, x: [_typed(f, x, x.shape[0]), _typed(f, x, 2, x.shape[0] + 5, 3)])
row(
    "linspace",
    "a",
    FLOATS,
    use=lambda f, x: [_typed(f, x, -1.0, 2.0, x.shape[0]), _typed(f, x, 0, 1, x.shape[0], False)],
)
row("logspace", "a", FLOATS, use=lambda f, x: _typed(f, x, -1.0, 2.0, x.shape[0]))
row("eye", "ab", ALL, use=lambda f, x: [_typed(f, x, x.shape[0]), _typed(f, x, x.shape[0], x.shape[1], 1)])
row("tri", "ab", ALL, use=lambda f, x: [_typed(f, x, x.shape[0]), _typed(f, x, x.shape[0], x.shape[1], -1)])
row("meshgrid", "a,b", ALL, use=lambda f, x, y: [*f(x, y), *f(x, y, indexing="ij")], exact=True)
row(
    "one_hot",
    "ab",
    INTS + UINTS,
    lambda x, n: (x[..., None] == np.arange(n)).astype(np.float32),
    result="float32",
    domain="few",
    use=lambda f, x: f(x % 3, 3),
)
row("broadcast_tensors", "ab,b", ALL, lambda *xs: np.broadcast_arrays(*xs), use=lambda f, x, y: [*f(x, y)], exact=True)
row("asarray", "ab", ALL, exact=True)

# ---- linear algebra ----------------------------------------------------------------------------------------------------
LINALG: dict[str, Any] = {"where": "linalg", "tolerance": 200, "least": 1}


def _definite(x: Any) -> Any:
    """Well-conditioned square matrices [a, b, b] of any [a, b, c]."""
    square = x @ (x.swapaxes(1, 2) if isinstance(x, np.ndarray) else x.mT)
    one = np.eye(x.shape[1]) if isinstance(x, np.ndarray) else _eye(x)
    return square * 0.1 + one * 3


def _eye(x: Any) -> Any:
    import burn

    return burn.eye(x.shape[1], dtype=x.dtype)


def _one(x: Any) -> Any:
    return np.eye(x.shape[1]) if isinstance(x, np.ndarray) else _eye(x)


row("det", "abc", SINGLE, np.linalg.det, use=lambda f, x: f(_definite(x)), **LINALG)
row("slogdet", "abc", SINGLE, np.linalg.slogdet, use=lambda f, x: [*f(_definite(x))], **LINALG)
row("inv", "abc", SINGLE, np.linalg.inv, use=lambda f, x: f(_definite(x)), **LINALG)
row("solve", "abc,abd", SINGLE, np.linalg.solve, use=lambda f, x, y: f(_definite(x), y), **LINALG)
row("cholesky", "abc", SINGLE, np.linalg.cholesky, use=lambda f, x: f(_definite(x)), **LINALG)
for _name in ("svdvals", "cond", "matrix_rank", "pinv"):
    row(
        _name,
        "abc",
        SINGLE,
        {"svdvals": lambda x: np.linalg.svd(x, compute_uv=False)}.get(_name) or getattr(np.linalg, _name),
        use=lambda f, x: f(_definite(x)),
        result="int64" if _name == "matrix_rank" else "same",
        **LINALG,
    )
row("eigvalsh", "abc", SINGLE, np.linalg.eigvalsh, use=lambda f, x: f(_definite(x) - 2 * _one(x)), **LINALG)
row(
    "matrix_power",
    "abc",
    SINGLE,
    np.linalg.matrix_power,
    use=lambda f, x: [f(_definite(x) * 0.1, 3), f(_definite(x), 0)],
    **LINALG,
)
row(
    "solve_triangular",
    "abc,abd",
    SINGLE,
    lambda a, b, upper: np.linalg.solve(np.triu(a) if upper else np.tril(a), b),
    use=lambda f, x, y: [f(_definite(x), y, True), f(_definite(x), y, False)],
    **LINALG,
)
row(
    "norm",
    "ab",
    FLOATS,
    np.linalg.norm,
    where="linalg",
    least=1,
    use=lambda f, x: [f(x), f(x, "fro"), f(x, 1), f(x, -math.inf), f(x, 2, 1)],
)
row("trace", "ab", REALS, np.trace, where="linalg", result="sum")
row("matrix_transpose", "abc", ALL, lambda x: x.swapaxes(1, 2), where="linalg", exact=True)
row(
    "multi_dot",
    "ab,bc,ca",
    SINGLE,
    lambda xs: xs[0] @ xs[1] @ xs[2],
    where="linalg",
    use=lambda f, *xs: f(xs),
    tolerance=4,
)
row("cross", "3a,3a", SINGLE, np.cross, where="linalg", use=lambda f, x, y: [f(x, y, axis=0)])
row("outer", "a,b", REALS, np.outer, where="linalg")

# ---- Fourier transforms ------------------------------------------------------------------------------------------------
FFT: dict[str, Any] = {"where": "fft", "least": 1, "tolerance": 20}


def _parts(z: Any) -> list[Any]:
    return [z.real, z.imag]


row("fft", "ab", SINGLE, np.fft.fft, use=lambda f, x: [*_parts(f(x)), *_parts(f(x, 6, 0))], **FFT)
row("ifft", "ab", SINGLE, np.fft.ifft, use=lambda f, x: _parts(f(x)), **FFT)
row("rfft", "ab", SINGLE, np.fft.rfft, use=lambda f, x: _parts(f(x)), **FFT)
row("irfft", "ab", SINGLE, np.fft.irfft, use=lambda f, x: [f(x, 7), f(x, 4)], **FFT)
row("fftfreq", "a", ("float32",), np.fft.fftfreq, use=lambda f, x: f(x.shape[0], 0.5), **FFT)
row("rfftfreq", "a", ("float32",), np.fft.rfftfreq, use=lambda f, x: f(x.shape[0], 0.5), **FFT)
row("fftshift", "ab", SINGLE, np.fft.fftshift, use=lambda f, x: [f(x), f(x, 1)], **FFT)
row("ifftshift", "ab", SINGLE, np.fft.ifftshift, use=lambda f, x: [f(x), f(x, 0)], **FFT)
row(
    "stft",
    "ab",
    SINGLE,
    lambda x, n, s: np.fft.rfft(np.lib.stride_tricks.sliding_window_view(x, n, 1)[:, ::s]),
    use=lambda f, x: _parts(f(x, 3, 2)),
    where="fft",
    least=3,
    tolerance=20,
)
for _window, _numpy in {
    "hann_window": np.hanning,
    "hamming_window": np.hamming,
    "blackman_window": np.blackman,
}.items():
    row(
        _window,
        "a",
        ("float32",),
        lambda n, periodic=True, f=_numpy: f(n + 1)[:-1] if periodic else f(n),
        where="fft",
        least=1,
        use=lambda f, x: [f(x.shape[0]), f(x.shape[0], False)],
    )

# ---- methods that are no functions -------------------------------------------------------------------------------------
CONVERSIONS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "int": "int64",
    "bool": "bool",
}
