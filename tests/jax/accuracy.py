"""The error that a case's numbers may have, measured against JAX in float64. Enter at `agreement`.

A number is right if it is within a few ulps of JAX's own or of JAX's in float64. Beyond that, the allowance is what one rounding
of each operand changes in float64 (the condition of the function there), and JAX's own error (`Reference.error`). For functions
of elements both are taken element by element; elsewhere, the largest over the result, and an ulp of the largest operand is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
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
POINTS = 8
"""Points at which JAX's error in float32, in ulps, stands for that in float64."""


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
        self._errors: list[Any] | None = None
        self._steps: list[Any] | None = None

    @cached_property
    def inner(self) -> float:
        """The largest ulp of 1 among the float types inside of a function in 64 bits: some compute in float32."""
        with jax.enable_x64(self.x64):
            program = jax.make_jaxpr(self.function)(*self.operands)
        types = [getattr(v.aval, "dtype", np.int32) for eqn in equations(program.jaxpr) for v in eqn.outvars]
        return max((float(jnp.finfo(t).eps) for t in types if jnp.issubdtype(t, jnp.inexact)), default=0.0)

    def step_by_step(self, number: int) -> Any:
        """JAX's result with every op rounded to its own type, as XLA's fused code is not by default. None if there is none."""
        if self._steps is None:
            run = jax.jit(self.function, compiler_options={"xla_allow_excess_precision": False})
            with jax.enable_x64(self.x64):
                self._steps = [np.asarray(r) for r in jax.tree.leaves(run(*self.operands))]
        return self._steps[number] if number < len(self._steps) else None

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

    def error(self, number: int, own: Any) -> Any:
        """JAX's own error: the distance of its result from float64, with and without excess precision. For results in 64 bits
        it is the largest error in float32 at this point and at some beside it, scaled."""
        if own.dtype in (np.float64, np.complex128):
            return np.asarray(self._scaled(number))
        exact = self.result(number)
        steps = self.step_by_step(number)
        found = _gap(wide(own), exact)
        return found if steps is None or steps.shape != exact.shape else np.maximum(found, _gap(wide(steps), exact))

    def _scaled(self, number: int) -> Any:
        if self._errors is None:
            self._errors = []
            draws = np.random.default_rng(1)
            narrow = [_narrow(x) for x in self.operands]
            scale = max(self.inner, np.finfo(np.float64).eps) / np.finfo(np.float32).eps
            for turn in range(POINTS):
                given = [_narrow(self._moved(x, draws, 3.0)) if turn else x for x in narrow]
                found = zip(self._run(given), self._run([wide(x) for x in given]), strict=False)
                gaps = [
                    _gap(a, b) * scale if a.dtype in (np.float32, np.complex64) else np.zeros(b.shape) for a, b in found
                ]
                self._errors = [np.maximum(*both) for both in zip(self._errors, gaps, strict=False)] if turn else gaps
        return self._errors[number] if number < len(self._errors) else 0.0

    def _moved(self, x: Any, draws: Any, ulps: float = 0.5) -> Any:
        """Integers move only if there are no floats: the function then computes in the default float type."""
        x = np.asarray(x)
        if jnp.issubdtype(x.dtype, jnp.inexact):
            eps = float(jnp.finfo(x.dtype).eps)
        elif self.floats:
            return x
        else:
            eps = float(jnp.finfo("float64" if self.x64 and x.dtype.itemsize == 8 else "float32").eps)
            x = x.astype(np.float64)
        eps = ulps * (max(eps, self.inner) if self.x64 else eps)

        def part(x: Any) -> Any:
            return x * (1 + eps * draws.choice([-1.0, 1.0], x.shape))

        x = wide(x)
        return np.asarray(part(x.real) + 1j * part(x.imag)) if np.iscomplexobj(x) else part(x)


def equations(jaxpr: Any) -> Iterator[Any]:
    """Those of a jaxpr, also inside of calls and loops."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jax.tree.leaves(tuple(eqn.params.values()), is_leaf=_is_jaxpr):
            if _is_jaxpr(inner):
                yield from equations(getattr(inner, "jaxpr", inner))


def _is_jaxpr(x: Any) -> bool:
    return hasattr(x, "eqns") or hasattr(x, "jaxpr")


def _gap(a: Any, b: Any) -> Any:
    """The distance; 0 where it is not finite."""
    gap = np.abs(a - b)
    return np.where(np.isfinite(gap), gap, 0)


def _narrow(x: Any) -> Any:
    x = np.asarray(x)
    return x.astype({np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}.get(x.dtype, x.dtype))


def size(x: Any) -> Any:
    """|x|; of a complex number with a part that is not finite, the size of the other one."""
    if not np.iscomplexobj(x):
        return np.abs(x)
    real, imag = (np.where(np.isfinite(part), np.abs(part), 0) for part in (x.real, x.imag))
    return np.where(np.isfinite(x), np.abs(x), np.maximum(real, imag))


def agreement(want: Any, have: Any, number: int, reference: Reference, factor: float, pointwise: bool) -> Any:
    """For each element, True if `have` is right where JAX gives `want`. Integers and bools must be equal to JAX's, here or in
    float64."""
    with np.errstate(all="ignore"):
        if not jnp.issubdtype(want.dtype, jnp.inexact):
            same = want == have
            exact = None if np.all(same) or not reference.floats else reference.result(number)
            return same if exact is None or exact.shape != have.shape else same | (exact == have)
        info = jnp.finfo(want.dtype)
        eps, tiny = float(info.eps), float(info.tiny)
        ulps = ULPS.get(want.dtype.name, 16.0) * factor
        own, mine = wide(want), wide(have)
        right = near(own, mine, ulps * eps * size(own) + tiny)
        exact = None if np.all(right) else reference.result(number)
        if exact is None or exact.shape != mine.shape:
            return right
        narrow = wide(exact.astype(want.dtype))  # overflow as in the narrow type
        right |= near(narrow, mine, ulps * eps * size(exact) + tiny)
        right |= ~np.isfinite(own) & np.isfinite(exact) & ~np.isfinite(mine)  # JAX overflows on the way, as burn does
        if np.all(right):
            return right
        if want.dtype in (np.float64, np.complex128):
            eps = max(eps, reference.inner)
        change, error = np.asarray(reference.change(number)), reference.error(number, want)
        floor = tiny
        if not pointwise and error.size:
            change, error = np.max(change), np.max(error)
            floor = eps * reference.size  # what cancels to zero leaves about an ulp of the operands
        allowed = ulps * eps * size(exact) + CONDITION * factor * change + OWN * error + floor
        return right | near(narrow, mine, allowed)


def near(want: Any, have: Any, allowed: Any) -> Any:
    """Complex numbers are near as a whole, or, where a part is not finite, part by part."""
    if np.iscomplexobj(want) and np.iscomplexobj(have):
        infinite = ~(np.isfinite(want) & np.isfinite(have))
        parts = near(want.real, have.real, allowed) & near(want.imag, have.imag, allowed)
        return _whole_near(want, have, allowed) | (infinite & parts)
    return _whole_near(want, have, allowed)


def _whole_near(want: Any, have: Any, allowed: Any) -> Any:
    finite = np.isfinite(want) & np.isfinite(have)
    gap = np.abs(np.where(finite, want, 0) - np.where(finite, have, 0))
    same = (want == have) | (np.isnan(want) & np.isnan(have))
    return same | (finite & (gap <= np.where(np.isfinite(allowed), allowed, 0)))
