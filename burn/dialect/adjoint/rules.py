"""The table of rules, and those ops that have none, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from burn.dialect.deferred import Value
from burn.dialect.op import REGISTRY

Cotangents: TypeAlias = "Value | Sequence[Any] | None"
"""Of an op's operands, in order: a value, None where there is none, a list for a variadic operand. May be of a shape that the
operand broadcasts to: `reverse.py` sums it up."""

Rule: TypeAlias = "Callable[..., Cotangents]"
"""rule(g, y, *operands, **attributes): g the cotangent of the result y; both are lists where an op has several results."""

FAMILIES = ("pointwise", "shape", "reduction", "contraction", "indexing", "composite", "marks")

_rules: dict[str, Rule] = {}

HIDES = frozenset({"list_insert", "list_concat", "list_split", "list_erase", "quantize"})
"""Ops whose results are no floats, but hold them: floats are not followed through them, and so they are refused."""

NONE: dict[str, str] = {
    "bitcast": "bits have no derivative",
    "window_reduce": "a product over windows has no rule",
    "unique": "which elements are equal changes with the elements",
    **dict.fromkeys(("non_max_suppression", "arg_reduce", "nonzero"), "its results are places"),
    **dict.fromkeys(HIDES, "floats are not followed through lists of tensors"),
    "quantize": "its results are integers; differentiate what stands in for rounding (a straight-through estimate)",
}
"""Why an op (or some of it) cannot be differentiated."""

CONTROL = frozenset({"if", "loop"})
"""Ops with regions, whose rules are `control.py`'s."""

ZERO = frozenset({"sign", "floor", "ceil", "round", "trunc", "floordiv", "stop_gradient"})
"""Constant wherever they have a derivative, or said to be."""


class NoRule(Exception):
    """What a rule says of a case that it does not have: why."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Decorates the rule of these ops."""

    def decorate(function: Rule) -> Rule:
        _rules.update(dict.fromkeys(names, function))
        return function

    return decorate


@cache
def rules() -> dict[str, Rule]:
    """Every rule by its op's name."""
    for family in FAMILIES:
        import_module(f"burn.dialect.adjoint.{family}")
    return _rules


def kind(name: str) -> str:
    """How an op is differentiated: "rule", "composite" (through what it is made of), "control", "zero" or "none"; "discrete"
    where there is nothing to differentiate, since no float goes in, or none comes out."""
    if name in rules():
        return "rule"
    if name in CONTROL:
        return "control"
    if name in ZERO:
        return "zero"
    if name in NONE:
        return "none"
    return "composite" if REGISTRY[name].decompose is not None else "discrete"
