"""Metrics of images: PSNR, SSIM and MS-SSIM. Computed in float64; means over the images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from burn.dialect import ops as build
from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant
from burn.train.metrics.base import Metric, Totals, count_of, is_float, ratio, total


class _Images(Metric):
    """Base of metrics that are means over images. peak: the difference of the largest and the smallest possible value: 1.0 for
    images in [0, 1], 255 for bytes."""

    def __init__(self, peak: float, name: str) -> None:
        if not 0 < peak < math.inf:
            raise TypeMismatch(f"{type(self).__name__} needs a positive peak", [f"not {peak}"])
        self.peak, self.name = peak, name

    def both(self, prediction: Any, target: Any, axes: int) -> tuple[Tensor, Tensor]:
        """Both in float64."""
        fits = all(isinstance(t, Tensor) and (t.ndim == axes if axes else t.ndim > 1) for t in (prediction, target))
        if not fits or not is_float(prediction):
            wanted = "[N, C, H, W]" if axes else "[N, ..]"
            raise self.refuse(f"float images and targets, both {wanted}", prediction, target)
        return prediction.astype("float64"), target.astype("float64")

    def value(self, totals: Totals) -> float:
        return ratio(totals["sum"], totals["count"])


class PSNR(_Images):
    """The peak signal-to-noise ratio, 10 log10(peak^2 / mean squared error), in decibels: the mean over images [N, ..], infinite
    if one is equal to its target. With `pooled` it is the ratio of the mean squared error of all elements, as in torchmetrics'
    PeakSignalNoiseRatio by default."""

    def __init__(self, peak: float = 1.0, pooled: bool = False, name: str = "psnr") -> None:
        super().__init__(peak, name)
        self.pooled = pooled

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        p, t = self.both(prediction, target, 0)
        square = (p - t) ** 2
        if self.pooled:
            return {"sum": total(square), "count": count_of(p)}
        errors = square.mean(tuple(range(1, p.ndim)))
        return {"sum": total((self.peak**2 / errors).log() * (10.0 / math.log(10.0))), "count": count_of(errors)}

    def value(self, totals: Totals) -> float:
        found = ratio(totals["sum"], totals["count"])
        if not self.pooled or math.isnan(found):
            return found
        return 10.0 * math.log10(self.peak**2 / found) if found else math.inf


class SSIM(_Images):
    """Structural similarity (Wang et al., 2004) of images [N, C, H, W]: a Gaussian window of `window` x `window` pixels with
    deviation `sigma`, over all windows that lie in the image. As skimage.metrics.structural_similarity with gaussian_weights and
    without sample covariance. Raises TypeMismatch for images that are smaller than the window."""

    def __init__(
        self,
        peak: float = 1.0,
        window: int = 11,
        sigma: float = 1.5,
        constants: tuple[float, float] = (0.01, 0.03),
        name: str = "ssim",
    ) -> None:
        super().__init__(peak, name)
        if window < 1 or sigma <= 0:
            raise TypeMismatch("SSIM needs a window of at least 1 and a positive sigma", [f"{window}, {sigma}"])
        self.window, self.sigma, self.constants = window, sigma, tuple(constants)

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        p, t = self.both(prediction, target, 4)
        self._fits(p)
        luminance, structure = self._parts(p, t)
        found = (luminance * structure).mean((1, 2, 3))
        return {"sum": total(found), "count": count_of(found)}

    def _fits(self, x: Tensor, scales: int = 1) -> None:
        least = (self.window - 1) * 2 ** (scales - 1) + 1
        if any(isinstance(n, int) and n < least for n in x.shape[2:]):
            raise self.refuse(f"images of at least {least} x {least} pixels", x)

    def _parts(self, p: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """The luminance and the contrast-structure of each window [N, C, h, w]."""
        c1, c2 = ((k * self.peak) ** 2 for k in self.constants)
        mp, mt = self._blurred(p), self._blurred(t)
        vp, vt = self._blurred(p * p) - mp * mp, self._blurred(t * t) - mt * mt
        both = self._blurred(p * t) - mp * mt
        return (mp * mt * 2.0 + c1) / (mp * mp + mt * mt + c1), (both * 2.0 + c2) / (vp + vt + c2)

    def _blurred(self, x: Tensor) -> Tensor:
        """The means of all windows, by one axis after the other."""
        at = np.arange(self.window) - (self.window - 1) / 2
        weights = np.exp(-0.5 * (at / self.sigma) ** 2)
        kernel = constant(weights / weights.sum())
        n, c, h, w = x.shape
        x = x.reshape(n * c, 1, h, w)
        for shape in ((1, 1, self.window, 1), (1, 1, 1, self.window)):
            x = Tensor(build.conv(x.value, kernel.reshape(*shape).value, groups=1, **_STRIDES))
        return x.reshape(n, c, *x.shape[2:])


_STRIDES: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "low": (0, 0), "high": (0, 0)}


class MSSSIM(SSIM):
    """SSIM over several scales (Wang et al., 2003). It is the product of the contrast-structures of all scales but the last,
    and the SSIM of the last. Each factor is clipped at 0 and raised to its weight. Between scales images are averaged over
    2 x 2 pixels. Images have at least (window - 1) 2^(scales - 1) + 1 pixels an axis."""

    WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)

    def __init__(
        self,
        peak: float = 1.0,
        window: int = 11,
        sigma: float = 1.5,
        constants: tuple[float, float] = (0.01, 0.03),
        weights: Sequence[float] = WEIGHTS,
        name: str = "ms-ssim",
    ) -> None:
        super().__init__(peak, window, sigma, constants, name)
        if not weights:
            raise TypeMismatch("MSSSIM needs a weight for each scale", ["there is none"])
        self.weights = tuple(weights)

    def counts(self, prediction: Any, target: Any) -> dict[str, Tensor]:
        p, t = self.both(prediction, target, 4)
        self._fits(p, len(self.weights))
        found: Any = 1.0
        for scale, weight in enumerate(self.weights):
            if scale:
                p, t = _halved(p), _halved(t)
            luminance, structure = self._parts(p, t)
            part = structure if scale < len(self.weights) - 1 else luminance * structure
            found = part.mean((1, 2, 3)).maximum(0.0) ** weight * found
        return {"sum": total(found), "count": count_of(found)}


def _halved(x: Tensor) -> Tensor:
    h, w = x.shape[2] // 2 * 2, x.shape[3] // 2 * 2
    x = x[:, :, :h, :w]
    return (x[:, :, ::2, ::2] + x[:, :, 1::2, ::2] + x[:, :, ::2, 1::2] + x[:, :, 1::2, 1::2]) * 0.25
