"""Drawn programs of JAX under `burn.vmap`, against `jax.vmap`: forward, gradients of each example, and mapped twice.

python -m tests.jax.mapped --count 300 --seed 1
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np

import burn
from burn.errors import BurnError
from tests.fuzz.runner import Outcome
from tests.fuzz.runner import main as shell
from tests.jax.case import Case, Result, _scalar, compared
from tests.jax.programs import drawn

HOWS = ("forward", "gradient", "twice", "jit")


def run(seed: int) -> Outcome:
    """One program, how it is mapped, and over which axes. Seeds decide everything."""
    case, text = drawn(seed, False)
    rng = np.random.default_rng([seed, 7])
    how = HOWS[int(rng.integers(0, len(HOWS)))]
    size = int(rng.choice([1, 2, 3, 5]))
    axes: list[Any] = [None] * len(case.operands)
    while all(axis is None for axis in axes):
        axes = [(None, 0, 1, -1)[int(rng.integers(0, 4))] for _ in axes]
    numbers = tuple(range(len(axes)))

    def scalar(*xs: Any) -> Any:
        return _scalar(jax.tree.leaves(case.function(*xs)))

    def mapped(vmap: Callable[..., Any], grad: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
        one = grad(own(scalar), numbers) if how == "gradient" else own(case.function)
        one = vmap(one, tuple(axes))
        return vmap(one, (0,) * len(axes)) if how == "twice" else one

    operands = tuple(_examples(rng, x, axis, size, how == "twice") for x, axis in zip(case.operands, axes, strict=True))
    detail = f"{how} of {size} examples over {axes}, {case!r}: {text}"
    result = _compared(replace(case, function=mapped(jax.vmap, jax.grad, lambda f: f), operands=operands), mapped, how)
    kind = {"right": "ok", "refused": "a refusal"}.get(result.kind, result.kind)
    return Outcome(kind, f"{detail}\n{result.detail}")


def _examples(rng: np.random.Generator, x: np.ndarray, axis: int | None, size: int, twice: bool) -> np.ndarray:
    """The operand of each example along an axis, and of two batches along the first."""

    def one() -> np.ndarray:
        if axis is None:
            return rng.normal(size=x.shape).astype(x.dtype)
        return np.stack([rng.normal(size=x.shape).astype(x.dtype) for _ in range(size)], axis)

    return np.stack([one(), one()]) if twice else one()


def _compared(case: Case, mapped: Callable[..., Any], how: str) -> Result:
    with jax.enable_x64(case.x64):
        try:
            want = jax.tree.leaves(jax.jit(case.function)(*case.operands))
        except Exception as error:  # JAX's own limits
            return Result("skipped", str(error)[:200])
        try:
            function = mapped(burn.vmap, burn.grad, burn.from_jax)
            function = burn.jit(function) if how != "forward" else function
            have = [np.asarray(x) for x in jax.tree.leaves(function(*map(np.asarray, case.operands)))]
        except Exception as error:  # the sweep goes on
            return Result(
                "refused" if isinstance(error, BurnError) else "error", f"{type(error).__name__}: {str(error)[:900]}"
            )
        return compared(case, want, have)


if __name__ == "__main__":
    sys.exit(shell(run, preload=("burn", "jax")))
