"""One case of the sweep: a JAX function and its operands, run by JAX and by burn. Enter at `Case` and `outcome`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import burn
from burn.errors import BurnError

BOUNDS = {"float64": 1e-11, "float32": 2e-5, "bfloat16": 3e-2, "float16": 4e-3}
"""Allowed errors, relative to the largest of 1 and the expected number's size."""


@dataclass(frozen=True)
class Case:
    """function(*operands); differentiable: its float results have a gradient with respect to its float operands that JAX and
    burn both define. bound: a factor of the error allowed."""

    name: str
    function: Callable[..., Any]
    operands: tuple[Any, ...]
    differentiable: bool = False
    bound: float = 1.0
    exact: bool = False

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{x.dtype}{list(x.shape)}' for x in self.operands)})"


@dataclass(frozen=True)
class Result:
    """kind: "right", "refused", "wrong", "error", or "skipped" where JAX itself refuses."""

    kind: str
    detail: str = ""


def loss_of(case: Case) -> tuple[Callable[..., Any], list[int]] | None:
    """A float scalar of the case's results, and the numbers of its float operands."""
    wanted = [i for i, x in enumerate(case.operands) if jnp.issubdtype(x.dtype, jnp.floating) and x.size]
    if not case.differentiable or not wanted:
        return None

    def loss(*operands: Any) -> Any:
        total = jnp.float32(0)
        for number, leaf in enumerate(jax.tree.leaves(case.function(*operands))):
            if jnp.issubdtype(leaf.dtype, jnp.floating):
                size = int(np.prod(leaf.shape))
                weights = (jnp.arange(size, dtype=jnp.float32) * 0.37 + number).reshape(leaf.shape)
                total = total + jnp.sum(jnp.cos(weights) * leaf.astype(jnp.float32))
        return total

    return loss, wanted


def outcome(case: Case, gradient: bool = False) -> Result:
    """How one case went. gradient: of a scalar of its results, by burn.grad against jax.grad."""
    if gradient:
        made = loss_of(case)
        if made is None:
            return Result("skipped")
        loss, wanted = made
        expected = _try(lambda: jax.jit(jax.grad(loss, wanted))(*case.operands))
        if isinstance(expected, Exception):
            return Result("skipped", str(expected)[:200])
        differentiated = burn.grad(burn.from_jax(loss), tuple(wanted))
        types = tuple(str(burn.spec(x.dtype.name, x.shape)) for x in case.operands)
        named = {f"x{i}": t for i, t in enumerate(types)}
        given = _try(lambda: _compiled(differentiated, named)(*map(np.asarray, case.operands)))
    else:
        expected = _try(lambda: jax.jit(case.function)(*case.operands))
        if isinstance(expected, Exception):
            return Result("skipped", str(expected)[:200])
        given = _try(lambda: burn.compile(jax.jit(case.function), case.operands, cache=False)(*case.operands))
    if isinstance(given, BurnError):
        return Result("refused", str(given)[:600])
    if isinstance(given, Exception):
        return Result("error", f"{type(given).__name__}: {str(given)[:600]}")
    return compared(case, jax.tree.leaves(expected), _leaves(given), gradient)


def together(cases: Sequence[Case]) -> list[Result]:
    """As `outcome` of each, forward, in one program of JAX and one of burn, which is much faster; each alone if that fails."""
    counts = [len(case.operands) for case in cases]

    def function(*operands: Any) -> list[Any]:
        rest = iter(operands)
        given = [[next(rest) for _ in range(n)] for n in counts]
        return [jax.tree.leaves(case.function(*xs)) for case, xs in zip(cases, given, strict=True)]

    operands = tuple(x for case in cases for x in case.operands)
    expected = _try(lambda: jax.jit(function)(*operands))
    if isinstance(expected, Exception):
        return [outcome(case) for case in cases]
    given = _try(lambda: burn.compile(jax.jit(function), operands, cache=False)(*operands))
    if isinstance(given, Exception):
        return [outcome(case) for case in cases]
    return [compared(case, w, h, False) for case, w, h in zip(cases, expected, given, strict=True)]


def _compiled(function: Callable[..., Any], named: dict[str, str]) -> Any:
    count = len(named)
    text = ", ".join(named)
    scope: dict[str, Any] = {"function": function}
    exec(f"def call({text}): return function({text})", scope)
    assert count
    return burn.compile(scope["call"], tuple(named.values()), cache=False)


def _leaves(given: Any) -> list[Any]:
    return [given] if not isinstance(given, (tuple, list, dict)) else jax.tree.leaves(given)


def _try(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # the sweep goes on
        return error


def compared(case: Case, expected: Sequence[Any], given: Sequence[Any], gradient: bool) -> Result:
    if len(expected) != len(given):
        return Result("wrong", f"{len(given)} results, not {len(expected)}")
    for number, (want, have) in enumerate(zip(expected, given, strict=True)):
        if jnp.issubdtype(want.dtype, jax.dtypes.prng_key):
            want, have = jax.random.key_data(want), jax.random.key_data(have)
        want, have = np.asarray(want), np.asarray(have)
        if want.shape != have.shape or want.dtype != have.dtype:
            return Result("wrong", f"result {number} is {have.dtype}{have.shape}, not {want.dtype}{want.shape}")
        if not np.issubdtype(want.dtype, np.floating) and want.dtype.name not in BOUNDS:
            if not np.array_equal(want, have):
                return Result("wrong", f"result {number}: {_shown(want, have)}")
            continue
        bound = BOUNDS.get(want.dtype.name, 0.3) * case.bound * (4 if gradient else 1)
        if close(want, have, bound):
            continue
        exact = None if gradient else _in_float64(case, number)
        if exact is None or not close(exact, have, bound):
            return Result("wrong", f"result {number}: {_shown(want, have)}")
    return Result("right")


def close(want: Any, have: Any, bound: float) -> bool:
    want, have = np.asarray(want, np.float64), np.asarray(have, np.float64)
    if want.shape != have.shape:
        return False
    with np.errstate(all="ignore"):
        same = (want == have) | (np.isnan(want) & np.isnan(have))
        finite = np.isfinite(want) & np.isfinite(have)
        size = np.maximum(np.abs(want), 1.0)
        near = finite & (np.abs(np.where(finite, want, 0) - np.where(finite, have, 0)) <= bound * size)
    return bool(np.all(same | near))


def _in_float64(case: Case, number: int) -> Any:
    """The same result computed by JAX in float64; None where it cannot be."""
    with jax.enable_x64(True):
        wide = [
            np.asarray(x, np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else np.asarray(x)
            for x in case.operands
            if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        ]
        result = _try(lambda: jax.tree.leaves(jax.jit(case.function)(*wide))[number])
        return None if isinstance(result, Exception) else np.asarray(result)


def _shown(want: Any, have: Any) -> str:
    with np.errstate(all="ignore"):
        a, b = np.asarray(want).reshape(-1), np.asarray(have).reshape(-1)
        wide, other = a.astype(np.float64), b.astype(np.float64)
        gap = np.abs(wide - other)
        gap = np.where((wide == other) | (np.isnan(wide) & np.isnan(other)), -1, np.where(np.isnan(gap), np.inf, gap))
    worst = [int(i) for i in np.argsort(-gap)[:3] if gap[i] >= 0]
    return "; ".join(f"[{i}] {b[i]}, not {a[i]}" for i in worst)
