"""PSNR, SSIM and MS-SSIM against float64 by scipy, over batches of other sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import TypeMismatch
from burn.train import metrics
from burn.train.metrics import Tally

ndimage = pytest.importorskip("scipy.ndimage")


def measured(metric: Any, batches: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """The metric over batches, counted by compiled programs."""
    tally, count = Tally([metric]), burn.jit(lambda p, t: metric.counts(p, t))
    for p, t in batches:
        tally.add(0.0, len(p), {metric.name: count(p, t)})
    return tally.values()[metric.name]


def pictures(seed: int, count: int, shape: tuple[int, ...], peak: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    target = ndimage.gaussian_filter(rng.random((count, *shape)), (0, 0, 2, 2)) * peak
    noisy = target + rng.standard_normal(target.shape) * 0.05 * peak * rng.random((count, 1, 1, 1))
    return noisy.astype(np.float32), target.astype(np.float32)


def parts64(
    p: np.ndarray, t: np.ndarray, peak: float, window: int = 11, sigma: float = 1.5
) -> tuple[np.ndarray, np.ndarray]:
    """Luminance and contrast-structure of one image [C, H, W], over the windows in it."""
    border = (window - 1) // 2

    def blurred(x: np.ndarray) -> np.ndarray:
        y = ndimage.gaussian_filter(x, (0, sigma, sigma), truncate=border / sigma, mode="reflect")
        return y[:, border : y.shape[1] - border, border : y.shape[2] - border]

    p, t = p.astype(np.float64), t.astype(np.float64)
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    mp, mt = blurred(p), blurred(t)
    vp, vt, both = blurred(p * p) - mp**2, blurred(t * t) - mt**2, blurred(p * t) - mp * mt
    return (2 * mp * mt + c1) / (mp**2 + mt**2 + c1), (2 * both + c2) / (vp + vt + c2)


@pytest.mark.parametrize("peak", [1.0, 255.0])
def test_structural_similarity(peak: float) -> None:
    batches = [pictures(0, 3, (2, 13, 17), peak), pictures(1, 1, (2, 11, 11), peak), pictures(2, 0, (2, 13, 17), peak)]
    want = []
    for p, t in batches:
        for one, other in zip(p, t, strict=True):
            luminance, structure = parts64(one, other, peak)
            want.append((luminance * structure).mean())
    np.testing.assert_allclose(measured(metrics.SSIM(peak), batches), np.mean(want), rtol=1e-9)
    same = batches[0][1]
    assert abs(measured(metrics.SSIM(peak), [(same, same)]) - 1) < 1e-12
    # pyrefly: ignore  # narrower than what is passed
    luminance, structure = parts64(*(x[0] for x in batches[0]), peak, 5, 2.0)
    own = measured(metrics.SSIM(peak, window=5, sigma=2.0), [tuple(x[:1] for x in batches[0])])  # type: ignore[list-item]
    np.testing.assert_allclose(own, (luminance * structure).mean(), rtol=1e-9)


def test_several_scales() -> None:
    """Odd sizes lose a row where images are halved."""
    weights = (0.2, 0.3, 0.5)
    p, t = pictures(0, 2, (1, 47, 51))
    want = []
    for one, other in zip(p.astype(np.float64), t.astype(np.float64), strict=True):
        value = 1.0
        for scale, weight in enumerate(weights):
            if scale:
                h, w = (n // 2 * 2 for n in one.shape[1:])
                one, other = (x[:, :h, :w].reshape(1, h // 2, 2, w // 2, 2).mean((2, 4)) for x in (one, other))
            luminance, structure = parts64(one, other, 1.0)
            value *= max((structure if scale < 2 else luminance * structure).mean(), 0) ** weight
        want.append(value)
    np.testing.assert_allclose(measured(metrics.MSSSIM(weights=weights), [(p, t)]), np.mean(want), rtol=1e-9)
    assert sum(metrics.MSSSIM.WEIGHTS) == pytest.approx(1.0, abs=1e-3)


def test_noise_ratios() -> None:
    batches = [pictures(0, 3, (1, 4, 5)), pictures(1, 2, (1, 4, 5))]
    p, t = (np.concatenate(x).astype(np.float64) for x in zip(*batches, strict=True))
    errors = ((p - t) ** 2).mean((1, 2, 3))
    np.testing.assert_allclose(measured(metrics.PSNR(), batches), (10 * np.log10(1 / errors)).mean(), rtol=1e-6)
    pooled = measured(metrics.PSNR(2.0, pooled=True), batches)
    np.testing.assert_allclose(pooled, 10 * np.log10(4 / errors.mean()), rtol=1e-6)
    same = batches[0][1]
    assert measured(metrics.PSNR(), [(same, same)]) == measured(metrics.PSNR(pooled=True), [(same, same)]) == np.inf
    assert np.isnan(measured(metrics.PSNR(), [(same[:0], same[:0])]))


def test_what_is_refused() -> None:
    small = burn.ones(1, 1, 8, 30)
    with pytest.raises(TypeMismatch, match="at least 11 x 11"):
        metrics.SSIM().counts(small, small)
    with pytest.raises(TypeMismatch, match="at least 161 x 161"):
        metrics.MSSSIM().counts(burn.ones(1, 1, 160, 170), burn.ones(1, 1, 160, 170))
    with pytest.raises(TypeMismatch, match=r"\[N, C, H, W\]"):
        metrics.SSIM().counts(burn.ones(1, 20, 20), burn.ones(1, 20, 20))
    for wrong in (lambda: metrics.PSNR(0.0), lambda: metrics.SSIM(window=0), lambda: metrics.MSSSIM(weights=())):
        with pytest.raises(TypeMismatch):
            wrong()
