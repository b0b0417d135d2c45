"""The error for a loss that depends on none of the parameters it is differentiated by."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.deferred import Deferred, Value
from burn.dialect.op import site
from burn.dialect.query import op_of
from burn.errors import Problem, TypeMismatch

SHOWN = 4
"""Paths of parameters in the error's text."""

HINT = (
    "compute it from the output of the model that the loss function is given; stop_gradient, comparisons, argmax, casts to "
    "integers and NumPy's functions end derivatives"
)


def no_gradient(loss: Value, parameters: Sequence[str]) -> TypeMismatch:
    """The error for a loss and the paths of the parameters; it names the op, and the line, that made the loss."""
    more = f" and {len(parameters) - SHOWN} more" if len(parameters) > SHOWN else ""
    text = f"it depends on none of the parameters: {', '.join(parameters[:SHOWN])}{more}"
    return TypeMismatch("the loss has no gradient", [Problem(text, node=_site(loss), hint=HINT)])


def _site(value: Value) -> str:
    if isinstance(value, Deferred):
        return "" if value.application is None else value.application.site
    op = op_of(value)
    return "" if op is None else site(op)
