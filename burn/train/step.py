"""The training step: forward, backward, clipping, update, running statistics and random numbers in one native call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from burn.errors import Problem, TypeMismatch
from burn.jitted import Jit
from burn.nn.module import Module
from burn.optim import Optimizer, clip_by_norm, clip_by_value
from burn.tensors import trees
from burn.tensors.gradients import value_and_grad
from burn.tracing.arguments import bound

Loss = Callable[..., Any]
"""loss(model, *batch) is a float scalar; with `has_aux` a pair of it and whatever else is wanted of the step."""

BATCH = "batch"
"""What the size that a batch's tensors share is called in the compiled step."""


class Step:
    """Called with a batch, moves the model's parameters and returns the loss. `compiled` is the jitted function behind it, from
    the first call on."""

    def __init__(
        self, model: Module, loss: Loss, optimizer: Optimizer, has_aux: bool, norm: float, value: float
    ) -> None:
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self._has_aux, self._norm, self._value = has_aux, norm, value
        self.signature = inspect.Signature(list(inspect.signature(loss).parameters.values())[1:])
        self.compiled: Jit | None = None
        own = {id(p) for p in model.parameters()}
        strangers = [Problem(f"'{path}'") for path, p in optimizer.parameters.items() if id(p) not in own]
        if strangers:
            raise TypeMismatch("the optimizer moves parameters that are not the model's", strangers)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The loss, of the parameters as they were before. Batches of other sizes are no other program: the first axis of every
        tensor may have another size at the next call, the same in all. A step that fails (a label out of range) leaves
        parameters and the optimizer's state as they were; running statistics may have moved. Raises InputError, RunError and
        TypeMismatch."""
        if self.compiled is None:
            name = getattr(self.loss, "__name__", "step")
            self.compiled = of_batches(self.run, self.signature, name, bound(self.signature, args, kwargs, name))
        return self.compiled(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """One step, not compiled as a whole: what a function of one's own may call (`burn.jit`)."""
        result, gradients = value_and_grad(self.loss, has_aux=self._has_aux)(self.model, *args, **kwargs)
        moving = {path: g for path, g in gradients.items() if path in self.optimizer.parameters}
        if self._value:
            moving = clip_by_value(moving, self._value)
        if self._norm:
            moving = clip_by_norm(moving, self._norm)
        self.optimizer.update(moving)
        return result


def of_batches(function: Callable[..., Any], signature: inspect.Signature, name: str, batch: Mapping[str, Any]) -> Jit:
    """A function of batches as one program for every batch size: the first axes of all tensors are one size with a name.
    Parameters are inputs. batch: the arguments of the first call, by name."""

    def whole(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    whole.__signature__ = signature  # type: ignore[attr-defined]
    whole.__name__ = name
    leaves = {name: trees.flatten(value)[0] for name, value in batch.items()}
    shared = {name: {0: BATCH} for name, found in leaves.items() if found and all(_has_axes(v) for v in found)}
    return Jit(whole, shared, (), opens=True)


def _has_axes(leaf: Any) -> bool:
    return trees.is_array(leaf) and len(getattr(leaf, "shape", ())) > 0


def step(
    model: Module,
    loss: Loss,
    optimizer: Optimizer,
    *,
    has_aux: bool = False,
    clip_norm: float | None = None,
    clip_value: float | None = None,
) -> Step:
    """The training step of a model as one compiled program. The model is put into training mode.

    loss: loss(model, *batch) -> a float scalar, or with has_aux a pair of it and anything else, which each step returns along.
    clip_value, clip_norm: what gradients' elements, and then their norm, are kept within. Raises TypeMismatch for an optimizer of
    another model, and for limits that are not more than 0."""
    for name, limit in {"clip_norm": clip_norm, "clip_value": clip_value}.items():
        if limit is not None and not limit > 0:
            raise TypeMismatch("a limit for gradients is more than 0", [f"{name} is {limit}"])
    return Step(model.train(), loss, optimizer, has_aux, clip_norm or 0.0, clip_value or 0.0)
