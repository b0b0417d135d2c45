"""JAX modules that burn trains: `burn.compile(function, examples, train=True)`. Enter at `to_train`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from burn.adapters.jax.function import JaxFunction
from burn.errors import Problem, TypeMismatch
from burn.importers.jax.dtypes import is_key
from burn.importers.jax.tracing import is_float, name_of
from burn.nn import Module
from burn.nn.parameter import Parameter
from burn.tensors import constant


class JaxModule(Module):
    """A JAX function as a module of burn's, whose parameters are the function's. It is called as the function is, with
    tensors. Floats are trained; other arrays are constants.

    Derivatives are JAX's. A function that behaves differently in training and in inference is two functions: give the one
    that is trained, and `copy_to` the other's parameters."""

    def __init__(self, function: JaxFunction) -> None:
        super().__init__()
        if function.parameters is None:
            hint = "burn.from_jax(model.apply, variables) says which arrays are its parameters"
            raise TypeMismatch("a function without parameters is not trained", [Problem(name_of(function), hint=hint)])
        self._function = function
        self._paths: list[str | None] = []
        for name, array in zip(function.parameters.names, function.parameters.arrays, strict=True):
            trainable = not is_key(array.dtype) and is_float(array.dtype)
            self._paths.append(name if trainable else None)
            if trainable:
                _attach(self, name.split("."), Parameter(constant(np.array(array))))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        found = dict(self.named_parameters())
        parameters = self._function.parameters
        assert parameters is not None
        given = [a if p is None else found[p] for a, p in zip(parameters.arrays, self._paths, strict=True)]
        return self._function.applied(given, args, kwargs)

    def parameters_of_jax(self) -> Any:
        """The parameters as they are now, as JAX's arrays in the function's own pytree."""
        found = dict(self.named_parameters())
        parameters = self._function.parameters
        assert parameters is not None
        arrays = [
            a if p is None else jax.numpy.asarray(found[p].numpy())
            for a, p in zip(parameters.arrays, self._paths, strict=True)
        ]
        return parameters.tree(arrays)


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

        build(function, called(function, examples, kwargs, dynamic))
    return module
