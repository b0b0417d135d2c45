"""JAX modules that burn trains: `burn.compile(function, examples, train=True)`. Enter at `to_train`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from burn.adapters.jax.forms import WithState
from burn.adapters.jax.function import JaxFunction, Typed, apart, joined
from burn.errors import Problem, TypeMismatch
from burn.importers.jax.dtypes import further_shape, is_complex, is_key
from burn.importers.jax.tracing import is_inexact, name_of
from burn.nn import Module
from burn.nn.parameter import Buffer, Parameter
from burn.tensors import constant


class JaxModule(Module):
    """A JAX function as a module of burn's, whose parameters are the function's. It is called as the function is, with
    tensors. Floats are trained; other arrays are constants. State is in buffers, and a call assigns them.

    Derivatives are JAX's. A module of Flax NNX follows `training`. Any other function that behaves differently in training and
    in inference is two modules of the same names: `other.load_state_dict(trained.state_dict())`."""

    def __init__(self, function: JaxFunction) -> None:
        super().__init__()
        if function.parameters is None:
            hint = "burn.from_jax(model.apply, variables) says which arrays are its parameters"
            raise TypeMismatch("a function without parameters is not trained", [Problem(name_of(function), hint=hint)])
        self._function, self._given = function, function.parameters
        self._paths: list[str | None] = []
        for name, array, trained in zip(self._given.names, self._given.arrays, self._given.trained, strict=True):
            kept = not trained or is_inexact(array.dtype)
            self._paths.append(name if kept else None)
            if kept:
                elements = constant(np.array(_elements(array)))
                _attach(self, name.split("."), (Parameter if trained else Buffer)(elements))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        found = dict(self.named_parameters())
        given = [
            array if path is None else Typed(found[path], array.dtype) if further_shape(array.dtype) else found[path]
            for array, path in zip(self._given.arrays, self._paths, strict=True)
        ]
        result, changed = self._function.applied(given, args, kwargs, self.training)
        for number, value in changed.items():
            path = self._paths[number]
            if path is None or not isinstance(found[path], Buffer):
                name = self._given.names[number]
                raise TypeMismatch(f"{name_of(self._function)} changes a parameter", [Problem(f"'{name}' is no state")])
            found[path].assign(value.tensor if isinstance(value, Typed) else value)
        return result

    def parameters_of_jax(self) -> Any:
        """The parameters as they are now, as JAX's arrays in the function's own pytree. For a module of Flax NNX it is its
        whole state: `nnx.update(model, trained.parameters_of_jax())`."""
        tree = self._tree()
        return tree[0] if isinstance(self._given.form, WithState) else tree

    def state_of_jax(self) -> Any:
        """The state as it is now, in the pytree that `burn.from_jax` was given. Raises TypeMismatch for a function without."""
        if not isinstance(self._given.form, WithState):
            raise TypeMismatch(
                f"{name_of(self._function)} has no state of its own", ["parameters_of_jax has all arrays"]
            )
        return self._tree()[1]

    def _tree(self) -> Any:
        found = dict(self.named_parameters())
        return self._given.tree(
            [
                array if path is None else _as_jax(found[path], array.dtype)
                for array, path in zip(self._given.arrays, self._paths, strict=True)
            ]
        )


def _elements(array: Any) -> Any:
    """Of keys, their words; of complex numbers, their parts [.., 2]."""
    if is_key(array.dtype):
        return jax.random.key_data(array)
    return apart(np.asarray(array)) if is_complex(array.dtype) else array


def _as_jax(parameter: Parameter, dtype: Any) -> Any:
    array = jax.numpy.asarray(joined(parameter.numpy(), dtype))
    return jax.random.wrap_key_data(array, impl=dtype._impl.name) if is_key(dtype) else array


def _attach(module: Module, path: list[str], parameter: Parameter) -> None:
    """Sets a parameter at a path, through modules that hold only parts."""
    *parents, last = path
    for name in parents:
        inner = getattr(module, name, None)
        if inner is None:
            inner = Part()
            setattr(module, name, inner)
        module = inner
    setattr(module, last, parameter)


class Part(Module):
    """A group of a JaxModule's parameters. It is not called."""

    def forward(self, *args: Any) -> Any:
        raise TypeMismatch("a part of a JAX function's parameters is not called", ["call the whole module"])


def to_train(
    function: JaxFunction, examples: Any = None, kwargs: Mapping[str, Any] | None = None, dynamic: Any = None
) -> JaxModule:
    """A JAX function as a module to be trained. With examples it is built once, to report what cannot be imported."""
    module = JaxModule(function)
    if examples is not None or kwargs:
        from burn.adapters.jax.calling import build, called

        build(module.train(), called(function, examples, kwargs, dynamic))
        module.eval()
    return module
