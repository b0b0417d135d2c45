"""The arrays that a JAX function carries with it, by name: a module's, and those bound by functools.partial. Enter at
`separated`."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import tree_util

from burn.adapters.jax.forms import First, Form, Itself, Nnx, WithState
from burn.errors import Problem, TypeMismatch
from burn.importers.jax.tracing import name_of
from burn.importers.weights.flax import PARAMETERS, dotted


@dataclass(frozen=True)
class Parameters:
    """Arrays with the names of their paths, and the pytree that they are in. form: how the function takes the pytree."""

    names: tuple[str, ...]
    arrays: tuple[Any, ...]
    structure: Any
    fixed: tuple[Any, ...]
    """The pytree's leaves that are no arrays, None at arrays."""
    trained: tuple[bool, ...]
    """False for the arrays of a state: running statistics, counts of random numbers."""
    form: Form

    def call(
        self, function: Callable[..., Any], arrays: Sequence[Any], args: Any, kwargs: Any, mode: bool | None
    ) -> Any:
        """Calls the function with these arrays for parameters. Returns its result, and by number the new values of those
        arrays that it changes. Raises TypeMismatch if it returns them in another structure."""
        result, after = self.form.call(function, self.tree(arrays), args, kwargs, mode)
        if after is None:
            return result, {}
        leaves, structure = tree_util.tree_flatten(after)
        if structure != self.structure:
            problem = Problem(f"it is {structure} after the call, {self.structure} before", node=name_of(function))
            raise TypeMismatch("a function changes the structure of its state", [problem])
        numbers = [i for i, leaf in enumerate(self.fixed) if leaf is _ARRAY]
        kept = [leaves[i] for i in numbers]
        return result, {i: new for i, (old, new) in enumerate(zip(arrays, kept, strict=True)) if new is not old}

    def tree(self, arrays: Sequence[Any]) -> Any:
        """The pytree with other arrays."""
        found = iter(arrays)
        leaves = [next(found) if leaf is _ARRAY else leaf for leaf in self.fixed]
        return tree_util.tree_unflatten(self.structure, leaves)


_ARRAY: Any = object()


def parameters_of(tree: Any, form: Form | None = None, is_state: Callable[[Any], bool] | None = None) -> Parameters:
    """The arrays in a pytree. is_state: for the path of an array, if it is not trained."""
    pairs, structure = tree_util.tree_flatten_with_path(tree)
    arrays = [(path, leaf) for path, leaf in pairs if is_array(leaf)]
    form = form or First()
    if isinstance(form, WithState):
        is_state = lambda path: path[0].idx == 1  # noqa: E731
        paths = _without_pair([path for path, _ in arrays])
    else:
        paths = [named(path) or "parameter" for path, _ in arrays]
        if is_state is None and isinstance(tree, Mapping) and PARAMETERS in tree:
            is_state = lambda path: path[0].key != PARAMETERS  # noqa: E731
    trained = tuple(is_state is None or not is_state(path) for path, _ in arrays)
    short = [n.removeprefix(PARAMETERS + ".") for n in paths]
    unique = short if len(set(short)) == len(short) else paths
    fixed = tuple(_ARRAY if is_array(leaf) else leaf for _, leaf in pairs)
    return Parameters(tuple(unique), tuple(leaf for _, leaf in arrays), structure, fixed, trained, form)


def _without_pair(paths: Sequence[Any]) -> list[str]:
    """Names in a pair of parameters and state: without the pair, unless a parameter and a state have one name."""
    names = [named(path[1:]) or ("parameter", "state")[path[0].idx] for path in paths]
    if len(set(names)) == len(names):
        return names
    return [f"state.{name}" if path[0].idx else name for path, name in zip(paths, names, strict=True)]


def is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray))


def named(path: Sequence[Any]) -> str:
    """encoder.layers.0.kernel: the keys, fields and positions that lead to a leaf."""
    parts = []
    for key in path:
        for name in ("key", "name", "idx"):
            if hasattr(key, name):
                parts.append(str(getattr(key, name)))
                break
        else:
            parts.append(str(key))
    return dotted([part for part in parts if part not in ("value", "_value") or len(parts) == 1])


def separated(function: Any, parameters: Any = None, state: Any = None) -> tuple[Callable[..., Any], Parameters | None]:
    """A function that takes its parameters first, and the parameters, if it has any."""
    if state is not None:
        return function, parameters_of((parameters, state), WithState())
    if parameters is not None:
        return function, parameters_of(parameters)
    if _is_bound_linen(function):
        module, variables = function.unbind()
        return module.apply, parameters_of(variables)
    if _is_nnx(function):
        return _of_nnx(function, "__call__")
    if isinstance(function, functools.partial):
        return _of_partial(function)
    owner = getattr(function, "__self__", None)
    if owner is not None and not _is_leaf(owner) and not isinstance(owner, type):  # a method of a module
        method = function.__func__
        name = getattr(method, "__name__", "__call__")
        if _is_nnx(owner):
            return _of_nnx(owner, name)
        return function, parameters_of(owner, Itself(lambda tree: getattr(tree, name)))
    if not _is_leaf(function):
        return function, parameters_of(function, Itself())
    return function, None


def _of_nnx(module: Any, method: str) -> tuple[Callable[..., Any], Parameters]:
    """A method of a module by its name and signature, without the module, and the module's arrays now."""
    from flax import nnx

    graph, state = nnx.split(module)
    variables, _ = tree_util.tree_flatten_with_path(state, is_leaf=lambda v: isinstance(v, nnx.Variable))
    own = {path for path, v in variables if isinstance(v, nnx.Param)}

    def called(*args: Any, **kwargs: Any) -> Any:
        return getattr(nnx.merge(graph, state), method)(*args, **kwargs)

    called.__name__ = type(module).__name__ if method == "__call__" else method
    called.__signature__ = inspect.signature(getattr(module, method))  # type: ignore[attr-defined]
    return called, parameters_of(state, Nnx(graph, method), lambda path: path[:-1] not in own)


def _of_partial(function: functools.partial[Any]) -> tuple[Callable[..., Any], Parameters | None]:
    """Arrays among the bound arguments; those by position go first."""
    bound = (tuple(function.args), dict(function.keywords))
    if not any(map(is_array, tree_util.tree_leaves(bound))):
        return function, None
    single = function.args[0] if len(function.args) == 1 and not _has_arrays(function.keywords) else None
    if single is not None and function.keywords == {}:
        return function.func, parameters_of(single)

    def rebuild(tree: Any) -> Any:
        args, kwargs = tree
        return functools.partial(function.func, *args, **kwargs)

    return function, parameters_of(bound, Itself(rebuild))


def _has_arrays(values: Mapping[str, Any]) -> bool:
    return any(map(is_array, tree_util.tree_leaves(values)))


def _is_leaf(value: Any) -> bool:
    """True for what is no container of JAX's pytrees."""
    return tree_util.all_leaves([value])


def _is_nnx(value: Any) -> bool:
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, nnx.Module)


def _is_bound_linen(value: Any) -> bool:
    linen = sys.modules.get("flax.linen")
    return linen is not None and isinstance(value, linen.Module) and value.scope is not None
