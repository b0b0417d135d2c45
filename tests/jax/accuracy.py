"""The error that a case's numbers may have, measured against JAX in float64. Enter at `verdict`.

A number is right if it is within a few ulps of JAX's own or of JAX's in float64. Beyond that, the allowance is
what one rounding of each operand changes in float64 (the condition of the function there), and JAX's own error. For functions of
elements both are taken element by element; elsewhere, the largest over the result, and an ulp of the largest operand is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

ULPS = {"float64": 64.0, "float32": 16.0, "float16": 4.0, "bfloat16": 4.0}
"""Allowed error in ulps."""
CONDITION, OWN = 8.0, 4.0
"""Factors of the condition's error and of JAX's own."""
DIRECTIONS = 3
"""Perturbations of the operands that are tried."""


def wide(x: Any) -> Any:
    """Floats as float64, complex numbers as complex128; anything else as it is."""
    x = np.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return x.astype(np.complex128)
    return x.astype(np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x


class Reference:
    """A function's results in float64, and how they change if operands are rounded. Computed when first read."""

    def __init__(self, function: Callable[..., Any], operands: Sequence[Any], x64: bool) -> None:
        self.function, self.operands, self.x64 = function, operands, x64
        self.floats = any(jnp.issubdtype(np.asarray(x).dtype, jnp.inexact) for x in operands)
        sizes = [np.max(np.abs(wide(x)), initial=0, where=np.isfinite(wide(x))) for x in operands]
        self.size = float(max(sizes, default=0.0))
        self._results: list[Any] | None = None
        self._changes: list[Any] | None = None

    def _run(self, operands: Sequence[Any]) -> list[Any]:
        with jax.enable_x64(True):
            try:
                return [np.asarray(r) for r in jax.tree.leaves(jax.jit(self.function)(*operands))]
            except Exception:  # what cannot be computed in float64 has no reference
                return []

    def result(self, number: int) -> Any:
        """None if there is none."""
        if self._results is None:
            self._results = self._run([wide(x) for x in self.operands])
        return self._results[number] if number < len(self._results) else None

    def change(self, number: int) -> Any:
        """The largest change of a result over perturbations of the operands by half an ulp."""
        want = self.result(number)
        if self._changes is None:
            self._changes = [np.zeros(np.shape(r)) for r in self._results or ()]
            draws = np.random.default_rng(0)
            for _ in range(DIRECTIONS):
                moved = [self._moved(x, draws) for x in self.operands]
                for i, (was, now) in enumerate(zip(self._results or (), self._run(moved), strict=False)):
                    if was.shape == now.shape and was.dtype.kind in "fc":
                        gap = np.abs(was - now)
                        self._changes[i] = np.maximum(self._changes[i], np.where(np.isfinite(gap), gap, 0))
        return self._changes[number] if want is not None and number < len(self._changes) else 0.0

    def _moved(self, x: Any, draws: Any) -> Any:
        """Integers move only if there are no floats: the function then computes in the default float type."""
        x = np.asarray(x)
        if jnp.issubdtype(x.dtype, jnp.inexact):
            eps = float(jnp.finfo(x.dtype).eps) / 2
        elif self.floats:
            return x
        else:
            eps = float(jnp.finfo("float64" if self.x64 and x.dtype.itemsize == 8 else "float32").eps) / 2
            x = x.astype(np.float64)
        return wide(x) * (1 + eps * draws.choice([-1.0, 1.0], x.shape))


def _size(x: Any) -> Any:
    """|x|; of a complex number with a part that is not finite, the size of the other one."""
    if not np.iscomplexobj(x):
        return np.abs(x)
    real, imag = (np.where(np.isfinite(part), np.abs(part), 0) for part in (x.real, x.imag))
    return np.where(np.isfinite(x), np.abs(x), np.maximum(real, imag))


def verdict(want: Any, have: Any, number: int, reference: Reference, factor: float, pointwise: bool) -> bool:
    """True if `have` is right where JAX gives `want`. Integers and bools must be equal to JAX's, here or in float64."""
    with np.errstate(all="ignore"):
        if not jnp.issubdtype(want.dtype, jnp.inexact):
            if np.array_equal(want, have):
                return True
            exact = reference.result(number) if reference.floats else None
            return exact is not None and exact.shape == have.shape and bool(np.all((exact == have) | (want == have)))
        info = jnp.finfo(want.dtype)
        eps, tiny = float(info.eps), float(info.tiny)
        ulps = ULPS.get(want.dtype.name, 16.0) * factor
        own, mine = wide(want), wide(have)
        near = _near(own, mine, ulps * eps * _size(own) + tiny)
        if np.all(near):
            return True
        exact = reference.result(number)
        if exact is None or exact.shape != mine.shape:
            return False
        narrow = wide(exact.astype(want.dtype))  # overflow as in the narrow type
        near |= _near(narrow, mine, ulps * eps * _size(exact) + tiny)
        if np.all(near):
            return True
        change = np.asarray(reference.change(number))
        error = np.abs(own - exact)
        error = np.where(np.isfinite(error), error, 0)
        floor = tiny
        if not pointwise and error.size:
            change, error = np.max(change), np.max(error)
            floor = eps * reference.size  # what cancels to zero leaves about an ulp of the operands
        allowed = ulps * eps * _size(exact) + CONDITION * factor * change + OWN * error + floor
        return bool(np.all(near | _near(narrow, mine, allowed)))


def _near(want: Any, have: Any, allowed: Any) -> Any:
    """Complex numbers are near as a whole, or, where a part is not finite, part by part."""
    if np.iscomplexobj(want) and np.iscomplexobj(have):
        infinite = ~(np.isfinite(want) & np.isfinite(have))
        parts = _near(want.real, have.real, allowed) & _near(want.imag, have.imag, allowed)
        return _whole_near(want, have, allowed) | (infinite & parts)
    return _whole_near(want, have, allowed)


def _whole_near(want: Any, have: Any, allowed: Any) -> Any:
    finite = np.isfinite(want) & np.isfinite(have)
    gap = np.abs(np.where(finite, want, 0) - np.where(finite, have, 0))
    same = (want == have) | (np.isnan(want) & np.isnan(have))
    return same | (finite & (gap <= np.where(np.isfinite(allowed), allowed, 0)))
