"""Gradients through `torch.compile(backend="burn")` of operators whose backward pass burn writes itself, against eager torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

import burn.adapters.torch  # noqa: E402, F401

pytestmark = pytest.mark.filterwarnings("ignore")

Case = tuple[Callable[..., Any], tuple[int, ...]] | tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]
IMAGE, INDICES = (2, 3, 5, 7), (2, 4, 3, 2)
TABLE, BAGS = (10, 3), {"input": torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), "offsets": torch.tensor([0, 4, 4])}


def bag(mode: str, **more: Any) -> Callable[..., Any]:
    return lambda w, *p: F.embedding_bag(
        weight=w, mode=mode, **BAGS, **more, **({"per_sample_weights": p[0]} if p else {})
    )


def grid(mode: str, padding: str, align: bool) -> Callable[..., Any]:
    return partial(F.grid_sample, mode=mode, padding_mode=padding, align_corners=align)


GROUPS: dict[str, dict[str, Case]] = {
    "pools and paddings": {
        "adaptive maxima 1d": (lambda x: F.adaptive_max_pool1d(x, 3), (2, 3, 7)),
        "adaptive maxima 2d": (lambda x: F.adaptive_max_pool2d(x, (2, 3)), IMAGE),
        "adaptive maxima 3d": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)), (2, 3, 5, 7, 4)),
        "repeated borders 1d": (lambda x: F.pad(x, (2, 3), mode="replicate"), (2, 3, 4)),
        "repeated borders 2d": (lambda x: F.pad(x, (2, 1, 0, 3), mode="replicate"), (2, 3, 4, 1)),
        "repeated borders 3d": (lambda x: F.pad(x, (1, 0, 2, 1, 0, 1), mode="replicate"), (2, 3, 4, 5)),
    },
    "smoothed images": {
        "smaller": (lambda x: F.interpolate(x, size=(3, 5), mode="bilinear", antialias=True), IMAGE),
        "corners": (
            lambda x: F.interpolate(x, size=(4, 5), mode="bilinear", antialias=True, align_corners=True),
            IMAGE,
        ),
        "cubic": (lambda x: F.interpolate(x, scale_factor=0.6, mode="bicubic", antialias=True), IMAGE),
    },
    "distances": {
        **{
            f"cdist {p}": (partial(torch.cdist, p=p, compute_mode="donot_use_mm_for_euclid_dist"), (2, 5, 4), (2, 3, 4))
            for p in (0.0, 1.0, 1.5, 2.0, float("inf"))
        },
        "to itself": (lambda x: torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist"), (5, 3)),
        "pdist": (partial(F.pdist, p=3.0), (5, 4)),
    },
    "bags": {
        "sums": (bag("sum"), TABLE),
        "means": (bag("mean"), TABLE),
        "maxima": (bag("max"), TABLE),
        "weighted": (bag("sum"), TABLE, (8,)),
        "padded means": (bag("mean", padding_idx=2), TABLE),
        "padded maxima": (bag("max", padding_idx=2), TABLE),
        "rows": (lambda w: F.embedding_bag(torch.tensor([[1, 2, 4], [4, 4, 2]]), w, mode="mean"), TABLE),
    },
    "places in images": {
        f"{mode} {padding} {align}": (grid(mode, padding, align), IMAGE, INDICES)
        for mode, padding, align in (
            ("bilinear", "zeros", False),
            ("bilinear", "reflection", True),
            ("nearest", "border", False),
        )
    },
    "smooth places in images": {
        f"{padding} {align}": (grid("bicubic", padding, align), IMAGE, INDICES)
        for padding, align in (("zeros", False), ("border", True), ("reflection", False))
    },
    "places in volumes": {
        "zeros": (grid("bilinear", "zeros", False), (2, 3, 5, 4, 6), (2, 4, 3, 1, 3)),
        "mirrored": (grid("bilinear", "reflection", True), (2, 3, 5, 1, 6), (2, 4, 3, 1, 3)),
    },
    "complex numbers": {
        "spectrum": (lambda x: torch.fft.rfft(x).abs(), (3, 8)),
        "there and back": (lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2), (3, 8)),
        "windows": (lambda x: torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs(), (2, 32)),
    },
    "parametrised weights": {
        "first axis": (lambda v, g: torch._weight_norm(v, g, 0), (3, 4, 5), (3, 1, 1)),
        "last axis": (lambda v, g: torch._weight_norm(v, g, 2), (3, 4, 5), (1, 1, 5)),
    },
    "groups of nothing": {
        "channels": (lambda x: F.group_norm(x, 2), (2, 4, 0)),
        "batch": (lambda x, w: F.group_norm(x, 2, w, w), (0, 4, 3), (4,)),
    },
    "matrices": {
        "inverse": (torch.linalg.inv, (3, 4, 4)),
        "Cholesky": (lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(4)), (3, 4, 4)),
    },
}

LONG = ("smooth places in images", "places in volumes", "smoothed images")


@pytest.mark.parametrize("group", [pytest.param(g, marks=[pytest.mark.slow] * (g in LONG)) for g in GROUPS])
def test_gradients(group: str) -> None:
    torch._dynamo.reset()
    cases = GROUPS[group]
    generator = torch.Generator().manual_seed(3)
    inputs = [[1.3 * torch.randn(s, generator=generator) for s in shapes] for _, *shapes in cases.values()]

    def everything(groups: list[list[Any]]) -> list[Any]:
        return [function(*xs) for (function, *_), xs in zip(cases.values(), groups, strict=True)]

    def gradients(run: Callable[..., Any]) -> list[Any]:
        groups = [[x.clone().requires_grad_() for x in xs] for xs in inputs]
        results = run(groups)
        torch.autograd.backward([(r * torch.arange(1, r.numel() + 1).reshape(r.shape).sin()).sum() for r in results])
        return [[r.detach(), *(x.grad for x in xs)] for r, xs in zip(results, groups, strict=True)]

    got, want = gradients(torch.compile(everything, backend="burn")), gradients(everything)
    for name, ours, theirs in zip(cases, got, want, strict=True):
        for g, w in zip(ours, theirs, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


def test_shares_by_frequency() -> None:
    """Eager torch takes the wrong counts where an index repeats, so that the judge is the embedding of every index."""
    torch._dynamo.reset()
    table = torch.randn(TABLE)

    def gradient(run: Callable[[Any], Any]) -> Any:
        w = table.clone().requires_grad_()
        run(w).sin().sum().backward()
        return w.grad

    def rows(w: Any) -> Any:
        found = F.embedding(BAGS["input"], w, scale_grad_by_freq=True)
        return torch.stack([found[:4].sum(0), found[:0].sum(0), found[4:].sum(0)])

    ours = gradient(torch.compile(bag("sum", scale_grad_by_freq=True), backend="burn"))
    torch.testing.assert_close(ours, gradient(rows))


@pytest.mark.slow
def test_sizes_that_vary() -> None:
    torch._dynamo.reset()

    def function(x: Any, indices: Any) -> Any:
        return F.adaptive_max_pool2d(F.grid_sample(x, indices, align_corners=False), 2)

    def gradients(run: Callable[..., Any], *shapes: tuple[int, ...]) -> list[Any]:
        generator = torch.Generator().manual_seed(4)
        xs = [torch.randn(s, generator=generator).requires_grad_() for s in shapes]
        run(*xs).sin().sum().backward()
        return [x.grad for x in xs]

    compiled = torch.compile(function, backend="burn", dynamic=True)
    for n, h, w, k in ((2, 5, 7, 4), (3, 4, 9, 6)):
        shapes = (n, 3, h, w), (n, k, k + 1, 2)
        torch.testing.assert_close(gradients(compiled, *shapes), gradients(function, *shapes), rtol=1e-4, atol=1e-5)
