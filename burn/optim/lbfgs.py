"""L-BFGS, which evaluates the loss as often as it needs to in one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from burn.errors import TypeMismatch
from burn.nn.module import Module
from burn.nn.parameter import Buffer
from burn.optim.base import Optimizer
from burn.optim.wolfe import Trial, strong_wolfe
from burn.tensors import Tensor, constant
from burn.tensors.concatenation import concat, where
from burn.tensors.control import fori_loop
from burn.tensors.creation import arange

Closure = Callable[[], tuple[Any, Mapping[str, Any]]]
"""The loss and its gradients by path, at the present parameters."""

CURVED = 1e-10
"""Minimum inner product of the changes of parameters and gradients; smaller pairs have no curvature information."""


class LBFGS(Optimizer):
    """Steps along -H g, where H follows from the last changes of parameters and gradient (J. Nocedal, Math. of Computation 35,
    1980), `lr` long or as far as a line search says. One step makes up to `max_iter` of them, and evaluates the loss up to
    `max_eval` times (1.25 * max_iter, unless given). It keeps 2 * `history` vectors as long as all parameters together. As
    torch.optim.LBFGS.

    It is stepped with a closure, `step(lambda: burn.value_and_grad(loss)(model, x, y))`; burn.train.step does that."""

    def __init__(
        self,
        model: Module,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history: int = 100,
        line_search: Literal["strong_wolfe"] | None = None,
    ) -> None:
        problems = [f"{name} is {n}" for name, n in {"max_iter": max_iter, "history": history}.items() if n < 1]
        problems += [f"there is no line search '{line_search}'"] if line_search not in (None, "strong_wolfe") else []
        if problems:
            raise TypeMismatch("LBFGS takes at least one iteration and one change", problems)
        self._history = history
        self._flat_types: tuple[Any, ...] = ()
        super().__init__(model, lr)
        self.max_iter, self.max_eval = max_iter, max_iter * 5 // 4 if max_eval is None else max_eval
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.line_search = line_search

    def follow(self) -> None:
        """As in the base class; the curvature history belongs to one set of parameters and is reset with another."""
        super().follow()
        types = tuple((path, p.type) for path, p in self._parameters.items())
        if types == self._flat_types:
            return
        dtypes = sorted({p.dtype for p in self._parameters.values()})
        if len(dtypes) > 1:
            raise TypeMismatch("LBFGS takes parameters of one type", [f"parameters are {', '.join(dtypes)}"])
        self._flat_types = types
        dtype, history = (dtypes or ["float32"])[0], self._history
        count = sum(p.count for p in self._parameters.values())
        self._moves, self._turns = (_buffer(n, (history, count), dtype) for n in ("moves", "turns"))
        self._shares = _buffer("shares", (history,), dtype)
        self._direction, self._gradient = (_buffer(n, (count,), dtype) for n in ("direction", "gradient"))
        self._numbers = _buffer("numbers", (5,), "float64")
        """Iterations made, changes kept, the last step's length, the scale of H, the last loss."""

    def update(self, gradients: Mapping[str, Tensor], only_if: Tensor | None = None) -> None:
        raise TypeMismatch(
            "LBFGS evaluates the loss itself", ["step(closure), where closure() is the loss and its gradients"]
        )

    def named_buffers(self) -> dict[str, Buffer]:
        found = super().named_buffers()
        own = (self._moves, self._turns, self._shares, self._direction, self._gradient, self._numbers)
        return found | {b.name: b for b in own}

    # ---- a step --------------------------------------------------------------------------------------------------------
    def step(self, closure: Closure) -> Any:
        """Moves the parameters, and returns the loss as it was before. Raises TypeMismatch for gradients that are not of its
        parameters."""
        first, gradients = closure()
        loss, g = float(first), self._flat(gradients)
        evaluations = 1
        self.steps.assign(self.steps.array + 1)
        if _largest(g) <= self.tolerance_grad:
            return first
        iterations, kept, length, scale, before = (float(n) for n in self._numbers.array)
        d, rate = self._direction * 1, self.lr
        for iteration in range(1, self.max_iter + 1):
            iterations += 1
            if iterations == 1:
                d, kept, scale = -g, 0, 1.0
            else:
                kept, scale = self._remember(d * length, g - self._gradient, int(kept), scale)
                d = self._along(g, int(kept), scale)
            self._gradient.assign(g)
            before = loss
            length = rate * (min(1.0, 1.0 / float(g.abs().sum())) if iterations == 1 else 1.0)
            slope = _dot(g, d)
            if slope > -self.tolerance_change:
                break
            point = self._flat(self.parameters)
            if self.line_search is not None:
                start = Trial(0.0, loss, slope, g)
                found, used = strong_wolfe(
                    lambda at, p=point, d=d: self._trial(closure, p, d, at),
                    start,
                    length,
                    _largest(d),
                    self.tolerance_change,
                )
                loss, g, length, evaluations = found.value, found.gradient, found.at, evaluations + used
                self._move(point, d, length)
            else:
                self._move(point, d, length)
                if iteration == self.max_iter:
                    break
                value, gradients = closure()
                loss, g, evaluations = float(value), self._flat(gradients), evaluations + 1
            small = _largest(d) * abs(length) <= self.tolerance_change or abs(loss - before) < self.tolerance_change
            if evaluations >= self.max_eval or _largest(g) <= self.tolerance_grad or small:
                break
        self._direction.assign(d)
        self._numbers.assign(np.array([iterations, kept, length, scale, before]))
        return first

    def _trial(self, closure: Closure, point: Tensor, d: Tensor, at: float) -> Trial:
        self._move(point, d, at)
        value, gradients = closure()
        g = self._flat(gradients)
        return Trial(at, float(value), _dot(g, d), g)

    def _flat(self, tensors: Mapping[str, Any]) -> Tensor:
        """All parameters' elements, or gradients, one after the other."""
        missing = [f"'{path}' is missing" for path in self.parameters if path not in tensors]
        if missing:
            raise TypeMismatch("LBFGS needs the gradients of all its parameters", missing)
        return concat([constant(tensors[path]).reshape(-1) for path in self.parameters]) * 1

    def _move(self, point: Tensor, d: Tensor, length: float) -> None:
        """Makes the parameters those at a position of a line."""
        position = (point + d * length).numpy()
        start = 0
        for p in self.parameters.values():
            p.assign(position[start : start + p.count].reshape(p.shape))
            start += p.count

    # ---- the curvature ----------------------------------------------------------------------------------------------------
    def _remember(self, move: Tensor, turn: Tensor, kept: int, scale: float) -> tuple[int, float]:
        """Keeps a change of the parameters and of the gradient in position of the oldest; how many there are, and H's scale."""
        curvature = _dot(turn, move)
        if not curvature > CURVED:
            return kept, scale
        count = self._shares.shape[0]
        share = constant(1.0 / curvature, move.dtype)
        for buffer, new in ((self._moves, move), (self._turns, turn), (self._shares, share)):
            old = concat([buffer[1:], buffer[:1]]) if kept == count else buffer * 1
            row = (arange(count) == min(kept, count - 1)).reshape(-1, *[1] * (len(buffer.shape) - 1))
            buffer.assign(where(row, new, old))
        return min(kept + 1, count), curvature / _dot(turn, turn)

    def _along(self, g: Tensor, kept: int, scale: float) -> Tensor:
        """-H g by two passes over what is kept, from the newest change to the oldest and back."""
        moves, turns, shares = self._moves * 1, self._turns * 1, self._shares * 1
        rows = arange(shares.shape[0])

        def down(i: Tensor, state: Any) -> Any:
            q, weights = state
            i = kept - 1 - i
            weight = (moves.take(i, 0) * q).sum() * shares.take(i, 0)
            return q - turns.take(i, 0) * weight, where(rows == i, weight, weights)

        def up(i: Tensor, state: Any) -> Any:
            r, weights = state
            weight = (turns.take(i, 0) * r).sum() * shares.take(i, 0)
            return r + moves.take(i, 0) * (weights.take(i, 0) - weight), weights

        q, weights = fori_loop(0, kept, down, (-g, shares * 0.0))
        return fori_loop(0, kept, up, (q * constant(scale, g.dtype), weights))[0]


def _buffer(name: str, shape: tuple[int, ...], dtype: str) -> Buffer:
    buffer = Buffer(shape, dtype)
    buffer.name = name
    return buffer


def _dot(x: Tensor, y: Tensor) -> float:
    return float((x * y).sum())


def _largest(x: Tensor) -> float:
    return float(x.abs().max())
