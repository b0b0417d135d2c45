"""One case of the sweep: a JAX function and its operands, run by JAX and by burn. Enter at `Case` and `outcome`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import burn
from burn.errors import BurnError
from tests.jax.accuracy import Reference, verdict


@dataclass(frozen=True)
class Case:
    """function(*operands); differentiable: its float results have a gradient with respect to its float operands that JAX and
    burn both define. bound: a factor of the error allowed. pointwise: a result's element depends on one element of each operand.
    x64: JAX computes in 64 bits. own: burn's function of tensors, if it is not burn.compile(function)."""

    name: str
    function: Callable[..., Any]
    operands: tuple[Any, ...]
    differentiable: bool = False
    bound: float = 1.0
    pointwise: bool = False
    x64: bool = False
    own: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{x.dtype}{list(x.shape)}' for x in self.operands)}){' x64' * self.x64}"


@dataclass(frozen=True)
class Result:
    """kind: "right", "refused", "wrong", "error", or "skipped" where JAX itself refuses."""

    kind: str
    detail: str = ""


def _scalar(leaves: Sequence[Any]) -> Any:
    """A sum of the float results with weights of different size and sign."""
    total: Any = 0.0
    for number, leaf in enumerate(leaves):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            weights = np.cos(np.arange(int(np.prod(leaf.shape))) * 0.37 + number).reshape(leaf.shape)
            kind = jnp.promote_types(leaf.dtype, jnp.float32)
            total = total + jnp.sum(jnp.asarray(weights, kind) * leaf.astype(kind))
    return total


def derivative(case: Case, order: int = 1) -> Case | None:
    """The gradient of a scalar of the case's results with respect to its float operands; order 2: the gradient, with respect to
    the first of them, of a scalar of that. None if there is nothing to differentiate."""
    wanted = [i for i, x in enumerate(case.operands) if jnp.issubdtype(x.dtype, jnp.floating) and x.size]
    if not case.differentiable or not wanted:
        return None

    def loss(*operands: Any) -> Any:
        return _scalar(jax.tree.leaves(case.function(*operands)))

    own = burn.from_jax(loss)
    if order == 1:
        function, theirs = jax.grad(loss, wanted), burn.grad(own, tuple(wanted))
    else:
        first = wanted[0]
        function = jax.grad(lambda *xs: _scalar([jax.grad(loss, first)(*xs)]), first)
        shape = np.shape(case.operands[first])
        weights = np.cos(np.arange(int(np.prod(shape))) * 0.37).reshape(shape)

        def again(*xs: Any) -> Any:
            inner = burn.grad(own, first)(*xs)
            return (inner * burn.constant(weights.astype(inner.dtype))).sum()

        theirs = burn.grad(again, first)
    alike = len({np.shape(x) for x in case.operands}) == 1
    return replace(
        case,
        name=f"{'gradient' if order == 1 else 'second derivative'} of {case.name}",
        function=function,
        own=theirs,
        bound=case.bound * 4,
        pointwise=case.pointwise and alike,
    )


def outcome(case: Case) -> Result:
    """How one case went."""
    with jax.enable_x64(case.x64):
        expected = _try(lambda: jax.jit(case.function)(*case.operands))
        if isinstance(expected, Exception):
            return Result("skipped", str(expected)[:200])
        given = _try(lambda: _by_burn(case))
        if isinstance(given, Exception):
            if isinstance(given, BurnError):
                return Result("refused", str(given)[:600])
            return Result("error", f"{type(given).__name__}: {str(given)[:600]}")
        return compared(case, jax.tree.leaves(expected), _leaves(given))


def _by_burn(case: Case) -> Any:
    if case.own is None:
        return burn.compile(jax.jit(case.function), case.operands, cache=False)(*case.operands)
    types = tuple(str(burn.spec(x.dtype.name, x.shape)) for x in case.operands)
    text = ", ".join(f"x{i}" for i in range(len(types)))
    scope: dict[str, Any] = {"function": case.own}
    exec(f"def call({text}): return function({text})", scope)
    return burn.compile(scope["call"], types, cache=False)(*map(np.asarray, case.operands))


def together(cases: Sequence[Case]) -> list[Result]:
    """As `outcome` of each, forward, of all that need x64 or none: in one program of JAX and one of burn, which is much faster;
    each alone if that fails. Those that JAX refuses are run alone."""
    alone = {i: outcome(case) for i, case in enumerate(cases) if _refused(case)}
    rest = [case for i, case in enumerate(cases) if i not in alone]
    results = iter(_together(rest) if rest else ())
    return [alone[i] if i in alone else next(results) for i in range(len(cases))]


def _refused(case: Case) -> bool:
    with jax.enable_x64(case.x64):
        return isinstance(_try(lambda: jax.jit(case.function).trace(*case.operands)), Exception)


def _together(cases: Sequence[Case]) -> list[Result]:
    counts = [len(case.operands) for case in cases]

    def function(*operands: Any) -> list[Any]:
        rest = iter(operands)
        given = [[next(rest) for _ in range(n)] for n in counts]
        return [jax.tree.leaves(case.function(*xs)) for case, xs in zip(cases, given, strict=True)]

    operands = tuple(x for case in cases for x in case.operands)
    with jax.enable_x64(cases[0].x64):
        expected = _try(lambda: jax.jit(function)(*operands))
        if isinstance(expected, Exception):
            return [outcome(case) for case in cases]
        given = _try(lambda: burn.compile(jax.jit(function), operands, cache=False)(*operands))
        if isinstance(given, Exception):
            return [outcome(case) for case in cases]
        return [compared(case, w, h) for case, w, h in zip(cases, expected, given, strict=True)]


def _leaves(given: Any) -> list[Any]:
    return [given] if not isinstance(given, (tuple, list, dict)) else jax.tree.leaves(given)


def _try(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # the sweep goes on
        return error


def compared(case: Case, expected: Sequence[Any], given: Sequence[Any]) -> Result:
    if len(expected) != len(given):
        return Result("wrong", f"{len(given)} results, not {len(expected)}")
    keys = any(jnp.issubdtype(x.dtype, jax.dtypes.prng_key) for x in case.operands)
    reference = Reference(case.function, () if keys else case.operands, case.x64)
    for number, (want, have) in enumerate(zip(expected, given, strict=True)):
        if jnp.issubdtype(want.dtype, jax.dtypes.prng_key):
            want, have = jax.random.key_data(want), jax.random.key_data(have)
        want, have = np.asarray(want), np.asarray(have)
        if want.shape != have.shape or want.dtype != have.dtype:
            return Result("wrong", f"result {number} is {have.dtype}{have.shape}, not {want.dtype}{want.shape}")
        if not verdict(want, have, number, reference, case.bound, case.pointwise):
            return Result("wrong", f"result {number}: {_shown(want, have)}")
    return Result("right")


def _shown(want: Any, have: Any) -> str:
    with np.errstate(all="ignore"):
        a, b = np.asarray(want).reshape(-1), np.asarray(have).reshape(-1)
        kind = np.complex128 if "c" in a.dtype.kind + b.dtype.kind else np.float64
        wide, other = a.astype(kind), b.astype(kind)
        gap = np.abs(wide - other)
        gap = np.where((wide == other) | (np.isnan(wide) & np.isnan(other)), -1, np.where(np.isnan(gap), np.inf, gap))
    worst = [int(i) for i in np.argsort(-gap)[:3] if gap[i] >= 0]
    return "; ".join(f"[{i}] {b[i]}, not {a[i]}" for i in worst)
