"""Gradients of whole models, judged by the gradient in float64. Enter at `Judge`.

Rounding decides at the edges of ReLU and at ties of pools. So the float32 gradients of a deep network differ from the exact one
by far more than an ulp, and by chance. SqueezeNet's gradient in JAX is off by 6e-3 at one input and by 9e-7 a few ulps beside
it; burn's behaves alike. JAX's error, the largest at a few such points, is the measure. At one of the points at least, another
float32 gradient may be off by a small factor of it and no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx

import burn
from burn.importers.onnx import import_onnx
from tests.models.cache import cached
from tests.models.double import widened

Gradient = Callable[[dict[str, Any]], list[Any]]
"""The inputs by name -> the gradients by the float inputs."""

POINTS = 4
"""The inputs, and inputs beside them."""
FACTOR = 4.0
"""An error allowed, over JAX's largest one."""
ROUNDING = 4e-6
"""An error allowed in any case, relative to the gradient: 32 ulps."""


def floats_of(feeds: dict[str, Any]) -> list[str]:
    return [n for n, x in feeds.items() if x.dtype.kind == "f"]


def weights_of(shape: tuple[int, ...]) -> Any:
    return np.cos(np.arange(np.prod(shape)) * 0.37).reshape(shape)


def weighted(outputs: Any, array: Callable[[Any], Any]) -> Any:
    """A scalar of all float outputs."""
    every = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    found = [x for x in every if "float" in str(x.dtype)]
    return sum(((x * array(weights_of(x.shape).astype(str(x.dtype)))).sum() for x in found), start=0.0)


def by_jax(function: Any, feeds: dict[str, Any]) -> Gradient:
    """The gradient of a function of JAX by its float inputs, with JAX's rules."""

    def loss(floats: Any, rest: Any) -> Any:
        return weighted(function(**floats, **rest), jax.numpy.asarray)

    names, gradient = floats_of(feeds), jax.jit(jax.grad(loss))

    def of(feeds: dict[str, Any]) -> list[Any]:
        with jax.enable_x64(True):
            found = gradient({n: feeds[n] for n in names}, {n: x for n, x in feeds.items() if n not in names})
            return [np.asarray(found[n]) for n in names]

    return of


def beside(feeds: dict[str, Any], seed: int) -> dict[str, Any]:
    """The inputs with floats that are up to four ulps away; seed 0: as they are."""
    if seed == 0:
        return feeds
    draws = np.random.default_rng(seed)
    return {
        n: (x * (1 + 4 * np.finfo(x.dtype).eps * draws.uniform(-1, 1, x.shape))).astype(x.dtype)
        if x.dtype.kind == "f"
        else x
        for n, x in feeds.items()
    }


def distance(a: Any, b: Any) -> float:
    """Of two arrays: the root of the sum of squares."""
    return float(np.linalg.norm((a.astype(np.float64) - b).reshape(-1)))


@dataclass(frozen=True)
class Judge:
    """want: the gradients in float64, at every point. errors: the distances of JAX's float32 gradients from float64, the largest
    over points."""

    want: list[list[Any]]
    errors: list[float]

    @staticmethod
    def of(path: Path, feeds: dict[str, Any]) -> Judge:
        """For a model's file and inputs; kept beside the models."""

        def write(file: Path) -> None:
            made = Judge._made(path, feeds)
            with file.open("wb") as stream:
                np.savez(stream, np.array(made.errors), *(x for xs in made.want for x in xs))

        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        sizes = [(n, x.shape) for n, x in feeds.items()]
        key = (digest, sizes, jax.__version__, Path(__file__).read_bytes())
        with np.load(cached(f"gradient.{path.name.removesuffix('.onnx')}", key, write, ".npz")) as found:
            errors, *flat = found.values()
        return Judge([flat[i : i + len(errors)] for i in range(0, len(flat), len(errors))], errors.tolist())

    @staticmethod
    def _made(path: Path, feeds: dict[str, Any]) -> Judge:
        narrow = by_jax(burn.to_jax(import_onnx(str(path))), feeds)
        wide = by_jax(burn.to_jax(import_onnx(widened(onnx.load(path)))), feeds)
        want: list[list[Any]] = []
        gaps: list[list[float]] = []
        for point in range(POINTS):
            given = beside(feeds, point)
            want.append(wide({n: x.astype(np.float64) if x.dtype == np.float32 else x for n, x in given.items()}))
            gaps.append([distance(a, b) for a, b in zip(narrow(given), want[-1], strict=True)])
        return Judge(want, np.max(gaps, axis=0).tolist())

    def check(self, gradient: Gradient, feeds: dict[str, Any]) -> None:
        """Raises AssertionError for a float32 gradient that is further from float64 than JAX's at all points."""
        said = []
        for point, want in enumerate(self.want):
            have = gradient(beside(feeds, point))
            assert [(a.shape, a.dtype) for a in have] == [(b.shape, np.float32) for b in want]
            allowed = [FACTOR * e + ROUNDING * distance(b, 0) for e, b in zip(self.errors, want, strict=True)]
            gaps = [distance(a, b) for a, b in zip(have, want, strict=True)]
            if all(gap <= limit for gap, limit in zip(gaps, allowed, strict=True)):
                return
            said.append(f"point {point}: {gaps} from float64, allowed {allowed}")
        raise AssertionError("\n".join(said))
