"""How a JAX function takes the arrays that belong to it, and how it returns their new values. Enter at `Form`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burn.errors import Problem, TypeMismatch
from burn.importers.jax.tracing import name_of

Call = tuple[Any, Any]
"""A function's result, and its arrays afterwards: a pytree of the structure that it was called with, or None."""


class Form:
    """Calls a function with a pytree of arrays. taken: the number of leading arguments that the pytree is."""

    taken = 0

    def call(self, function: Any, tree: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mode: bool | None) -> Call:
        """mode: True to train, False to evaluate; None leaves a module in its own mode."""
        raise NotImplementedError


class First(Form):
    """The pytree is the first argument."""

    taken = 1

    def call(self, function: Any, tree: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mode: bool | None) -> Call:
        return function(tree, *args, **kwargs), None


@dataclass(frozen=True)
class Itself(Form):
    """The pytree is the function, or `rebuild` makes the function of it."""

    rebuild: Callable[[Any], Any] | None = None

    def call(self, function: Any, tree: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mode: bool | None) -> Call:
        return (tree if self.rebuild is None else self.rebuild(tree))(*args, **kwargs), None


class WithState(Form):
    """The pytree is a pair of parameters and state, the first two arguments. The function returns its result and the state
    afterwards, as Haiku's `apply` of `transform_with_state` does."""

    taken = 2

    def call(self, function: Any, tree: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mode: bool | None) -> Call:
        parameters, state = tree
        given = function(parameters, state, *args, **kwargs)
        if not isinstance(given, tuple) or len(given) != 2:
            text = f"{name_of(function)} returned a {type(given).__name__}"
            raise TypeMismatch("a function with state returns a pair: its result and its state", [Problem(text)])
        return given[0], (parameters, given[1])


@dataclass(frozen=True)
class Nnx(Form):
    """A module of Flax NNX: its graph, and the name of the method that is called. The module changes its variables."""

    graph: Any
    method: str

    def call(self, function: Any, tree: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mode: bool | None) -> Call:
        from flax import nnx

        module = nnx.merge(self.graph, tree)
        if mode is not None:
            (module.train if mode else module.eval)()
        result = getattr(module, self.method)(*args, **kwargs)
        return result, nnx.state(module)
