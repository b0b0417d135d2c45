"""Functions of random shapes, sizes of 1 and primes among them, with random attributes: a family for each kind of index
arithmetic that rules do. Each of `FAMILIES` draws a function and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import burn
from burn import ops
from burn.tensors import Tensor

Rng = np.random.Generator
Drawn = tuple[Callable[..., Tensor], list[np.ndarray]]
SIZES = (1, 2, 3, 5, 7)


def size(rng: Rng) -> int:
    return int(rng.choice(SIZES))


def sizes(rng: Rng, count: int) -> tuple[int, ...]:
    return tuple(size(rng) for _ in range(count))


def below(rng: Rng, count: int, end: int, start: int = 0) -> tuple[int, ...]:
    return tuple(int(v) for v in rng.integers(start, end, count))


def distinct(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers far enough apart that their order stays."""
    return rng.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 1.03


def _windows(rng: Rng, rank: int) -> dict[str, Any]:
    """Strides, dilations and borders, and an image that the kernel fits in."""
    kernel, dilations = below(rng, rank, 4, 1), below(rng, rank, 3, 1)
    low, high = below(rng, rank, 3), below(rng, rank, 3)
    reach = [(k - 1) * d + 1 - a - b for k, d, a, b in zip(kernel, dilations, low, high, strict=True)]
    image = tuple(max(r, 1) + n for r, n in zip(reach, below(rng, rank, 5), strict=True))
    own = {"strides": below(rng, rank, 4, 1), "dilations": dilations, "low": low, "high": high}
    return {"kernel": kernel, "image": image, "own": own}


def conv(rng: Rng) -> Drawn:
    w = _windows(rng, int(rng.integers(1, 4)))
    groups, inner, outer = (int(v) for v in rng.integers(1, 4, 3))
    x = rng.standard_normal((size(rng), groups * inner, *w["image"]))
    kernel = rng.standard_normal((groups * outer, inner, *w["kernel"]))
    return lambda x, k: ops.conv(x, k, groups=groups, **w["own"]), [x, kernel]


def conv_transpose(rng: Rng) -> Drawn:
    rank = int(rng.integers(1, 3))
    strides, dilations, kernel = below(rng, rank, 4, 1), below(rng, rank, 3, 1), below(rng, rank, 4, 1)
    groups, inner, outer = (int(v) for v in rng.integers(1, 3, 3))
    own = {"strides": strides, "dilations": dilations, "low": (0,) * rank, "high": (0,) * rank, "groups": groups}
    extra = tuple(int(rng.integers(0, s)) for s in strides)
    x = rng.standard_normal((size(rng), groups * inner, *sizes(rng, rank)))
    k = rng.standard_normal((groups * inner, outer, *kernel))
    return lambda x, k: ops.conv_transpose(x, k, extra=extra, **own), [x, k]


def pool(rng: Rng) -> Drawn:
    w = _windows(rng, 2)
    own = {name: (1, *value) if name in ("strides", "dilations") else (0, *value) for name, value in w["own"].items()}
    kind = str(rng.choice(["sum", "max"]))
    if kind == "max":  # a window on a border alone has no largest element
        own |= {"low": (0, 0, 0), "high": (0, 0, 0)}
        kernel = (1, *w["kernel"])
        image = tuple((k - 1) * d + 2 for k, d in zip(w["kernel"], w["own"]["dilations"], strict=True))
    else:
        kernel, image = (1, *w["kernel"]), w["image"]
    x = distinct(rng, (size(rng), *image))
    return lambda x: ops.window_reduce(x, kind=kind, window=kernel, **own), [x]


def matmul(rng: Rng) -> Drawn:
    """Matrices, stacked under axes that broadcast."""
    lead, (m, k, n) = sizes(rng, 2), sizes(rng, 3)
    first = tuple(d if rng.random() < 0.7 else 1 for d in lead)
    second = tuple(d if rng.random() < 0.7 else 1 for d in lead[int(rng.integers(0, 3)) :])
    return lambda a, b: a @ b, [rng.standard_normal((*first, m, k)), rng.standard_normal((*second, k, n))]


def einsum(rng: Rng) -> Drawn:
    dims = dict(zip("abcde", sizes(rng, 5), strict=True))
    first, second = ("".join(rng.permutation(list("abcde"))[: rng.integers(2, 5)]) for _ in range(2))
    kept = [c for c in sorted({*first, *second}) if rng.random() < 0.6]
    text = f"{first},{second}->{''.join(rng.permutation(kept)) if kept else ''}"
    arrays = [rng.standard_normal([dims[c] for c in side]) for side in (first, second)]
    return lambda a, b: burn.einsum(text, a, b), arrays


def broadcast(rng: Rng) -> Drawn:
    shape = sizes(rng, 3)
    parts = [tuple(d if rng.random() < 0.6 else 1 for d in shape[int(rng.integers(0, 3)) :]) for _ in range(3)]
    arrays = [rng.standard_normal(p) for p in parts]
    return lambda a, b, c: (a * b).sin() + (b * b + 1.0).log() * c, arrays


def reduction(rng: Rng) -> Drawn:
    shape = sizes(rng, 3)
    axes = tuple(i for i in range(3) if rng.random() < 0.5) or (int(rng.integers(0, 3)),)
    kind, keep = str(rng.choice(["sum", "prod", "max", "mean", "logsumexp", "var"])), bool(rng.random() < 0.5)
    return lambda x: getattr(x, kind)(axes, keepdims=keep) ** 2, [distinct(rng, shape)]


def norm(rng: Rng) -> Drawn:
    groups = int(rng.integers(1, 4))
    channels = groups * int(rng.integers(1, 4))
    x = rng.standard_normal((size(rng), channels, *sizes(rng, int(rng.integers(1, 3))))) * 2
    scale, bias = rng.standard_normal((2, channels))
    if rng.random() < 0.5:
        return lambda x, s, b: ops.group_norm(x, s, b, groups=groups, epsilon=0.1), [x, scale, bias]
    return lambda x, s, b: ops.layer_norm(x.permute(0, *range(2, x.ndim), 1), s, b, epsilon=0.1), [x, scale, bias]


def moved(rng: Rng) -> Drawn:
    """Slices with steps, borders, permutations, one after another."""
    shape = tuple(d + 1 for d in sizes(rng, 3))
    steps = [int(rng.choice([-2, -1, 1, 2, 3])) for _ in shape]
    axes = [int(v) for v in rng.permutation(3)]
    low, high, interior = below(rng, 3, 3), below(rng, 3, 3), below(rng, 3, 2)

    def function(x: Tensor, v: Tensor) -> Tensor:
        y = x[tuple(slice(None, None, s) for s in steps)].permute(*axes)
        y = ops.pad(y, v, low=low, high=high, interior=interior)
        return burn.concat([y, y * y], 1).flip((0, 2)).reshape(-1)

    return function, [rng.standard_normal(shape), rng.standard_normal(())]


def indices(rng: Rng) -> Drawn:
    """Elements read and written at repeated indices."""
    shape, axis = sizes(rng, 3), int(rng.integers(0, 3))
    where = rng.integers(-shape[axis], shape[axis], sizes(rng, 2))
    own = np.stack([rng.integers(0, d, 4) for d in shape], -1)

    def function(x: Tensor, u: Tensor) -> Tensor:
        y = ops.scatter_nd(x, burn.constant(own), u, reduction="add")
        return ops.gather(y, burn.constant(where), axis=axis) ** 2

    return function, [rng.standard_normal(shape), rng.standard_normal(4)]


def running(rng: Rng) -> Drawn:
    shape, axis = sizes(rng, 3), int(rng.integers(0, 3))
    kind = str(rng.choice(["sum", "prod", "max"]))
    own = {"kind": kind, "axis": axis, "exclusive": kind != "max" and bool(rng.random() < 0.5)}
    return lambda x: ops.cumulative(x, reverse=bool(shape[0] % 2), **own) ** 2, [distinct(rng, shape)]


def resize(rng: Rng) -> Drawn:
    image, result = sizes(rng, 2), sizes(rng, 2)
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    corner = str(rng.choice(["half_pixel", "align_corners", "asymmetric"]))
    x = rng.standard_normal((2, size(rng), *image))
    return lambda x: ops.resize(x, None, None, axes=(2, 3), sizes=result, mode=mode, transformation=corner) ** 2, [x]


def attention(rng: Rng) -> Drawn:
    batch, heads, share = (int(v) for v in rng.integers(1, 4, 3))
    s, t, d, e = sizes(rng, 4)
    causal = bool(rng.random() < 0.5)
    q = rng.standard_normal((batch, heads * share, s, d))
    k, v = rng.standard_normal((batch, heads, t, d)), rng.standard_normal((batch, heads, t, e))
    return lambda q, k, v, m: ops.attention(q, k, v, m, scale=0.6, causal=causal), [
        q,
        k,
        v,
        rng.standard_normal((s, t)),
    ]


def loss(rng: Rng) -> Drawn:
    shape = (size(rng), int(rng.integers(1, 6)), *sizes(rng, int(rng.integers(0, 3))))
    target = burn.constant(rng.integers(0, shape[1], (shape[0], *shape[2:])))
    kind = str(rng.choice(["sum", "mean", "none"]))
    return lambda x, w: ops.cross_entropy(x, target, w, reduction=kind)[0], [
        rng.standard_normal(shape), rng.uniform(0.3, 2, shape[1])
    ]  # fmt: skip


FAMILIES = {
    f.__name__: f
    for f in (
        conv, conv_transpose, pool, matmul, einsum, broadcast, reduction, norm, moved, indices, running, resize, attention, loss
    )
}  # fmt: skip
