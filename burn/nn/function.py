"""Activations as layers: one class for each row of `activation.FUNCTIONS`, with the function's options as its arguments.

Type checkers read function.pyi, which docs/stubs.py writes.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from burn.nn.activation import FUNCTIONS
from burn.nn.module import Layer
from burn.tensors import Tensor

__all__ = [*FUNCTIONS]  # pyright: ignore[reportUnsupportedDunderAll]  # the stub lists them


class Function(Layer):
    """Base of the classes made from the table."""

    FUNCTION: Callable[..., Tensor]
    options: dict[str, Any]

    def forward(self, x: Tensor) -> Tensor:
        return type(self).FUNCTION(x, **self.options)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


def _make(name: str, function: Callable[..., Tensor]) -> type[Function]:
    _, *parameters = inspect.signature(function).parameters.values()

    def __init__(self: Function, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        self.options = {k: v for k, v in bound.arguments.items() if k != "self"}

    owner = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([owner, *parameters], return_annotation="None")
    __init__.__signature__ = signature  # type: ignore[attr-defined]
    hints = typing.get_type_hints(function, include_extras=True)
    __init__.__annotations__ = {p.name: hints[p.name] for p in parameters}
    doc = f"{function.__doc__} Shapes: x [...] -> [...]." if "Shapes" not in str(function.__doc__) else function.__doc__
    own = {"__doc__": doc, "__module__": __name__, "__init__": __init__, "FUNCTION": staticmethod(function)}
    return type(name, (Function,), own)


for _name, _function in FUNCTIONS.items():
    globals()[_name] = _make(_name, _function)
