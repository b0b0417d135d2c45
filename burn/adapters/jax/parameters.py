"""The arrays that a JAX function carries with it, by name: a module's, and those bound by functools.partial. Enter at
`separated`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import tree_util


@dataclass(frozen=True)
class Parameters:
    """Arrays with the names of their paths, and the pytree that they are in.

    whole: the pytree is the function itself (a module), or is made into it by `rebuild`; else it is the first argument."""

    names: tuple[str, ...]
    arrays: tuple[Any, ...]
    structure: Any
    fixed: tuple[Any, ...]
    """The pytree's leaves that are no arrays, None at arrays."""
    whole: bool = False
    rebuild: Callable[[Any], Any] | None = None

    def call(self, function: Callable[..., Any], arrays: Sequence[Any], args: Any, kwargs: Any) -> Any:
        """Calls the function with these arrays for parameters."""
        tree = self.tree(arrays)
        if not self.whole:
            return function(tree, *args, **kwargs)
        return (tree if self.rebuild is None else self.rebuild(tree))(*args, **kwargs)

    def tree(self, arrays: Sequence[Any]) -> Any:
        """The pytree with other arrays."""
        found = iter(arrays)
        leaves = [next(found) if leaf is _ARRAY else leaf for leaf in self.fixed]
        return tree_util.tree_unflatten(self.structure, leaves)


_ARRAY: Any = object()


def parameters_of(tree: Any, whole: bool = False, rebuild: Callable[[Any], Any] | None = None) -> Parameters:
    pairs, structure = tree_util.tree_flatten_with_path(tree)
    arrays = [(path, leaf) for path, leaf in pairs if is_array(leaf)]
    names = [named(path) or "parameter" for path, _ in arrays]
    prefix = "params."
    short = [n.removeprefix(prefix) for n in names]
    unique = short if len(set(short)) == len(short) else names
    fixed = tuple(_ARRAY if is_array(leaf) else leaf for _, leaf in pairs)
    return Parameters(tuple(unique), tuple(leaf for _, leaf in arrays), structure, fixed, whole, rebuild)


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
    text = ".".join(part for part in parts if part not in ("value", "_value") or len(parts) == 1)
    return text.replace("/~/", ".").replace("/", ".")


def separated(function: Any, parameters: Any = None) -> tuple[Callable[..., Any], Parameters | None]:
    """A function that takes its parameters first, and the parameters, if it has any."""
    if parameters is not None:
        return function, parameters_of(parameters)
    if _is_bound_linen(function):
        module, variables = function.unbind()
        return module.apply, parameters_of(variables)
    if _is_nnx(function):
        from flax import nnx

        graph, state = nnx.split(function)
        return function, parameters_of(state, whole=True, rebuild=lambda s: nnx.merge(graph, s))
    if isinstance(function, functools.partial):
        return _of_partial(function)
    owner = getattr(function, "__self__", None)
    if owner is not None and not _is_leaf(owner) and not isinstance(owner, type):  # a method of a module
        method = function.__func__
        name = getattr(method, "__name__", "__call__")
        if _is_nnx(owner):
            from flax import nnx

            graph, state = nnx.split(owner)
            rebuild = lambda s: getattr(nnx.merge(graph, s), name)  # noqa: E731
            return function, parameters_of(state, whole=True, rebuild=rebuild)
        return function, parameters_of(owner, whole=True, rebuild=lambda tree: getattr(tree, name))
    if not _is_leaf(function):
        return function, parameters_of(function, whole=True)
    return function, None


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

    return function, parameters_of(bound, whole=True, rebuild=rebuild)


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
