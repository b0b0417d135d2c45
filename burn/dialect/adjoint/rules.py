"""The table of rules, and the ops without rules, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from burn.dialect.deferred import Value
from burn.dialect.op import REGISTRY

Cotangents: TypeAlias = "Value | Sequence[Any] | None"
"""The cotangents of an op's operands, in order: a value, None if there is none, a list for a variadic operand. Shapes
may be larger than the operand's by broadcasting; `reverse.py` sums them."""

Rule: TypeAlias = "Callable[..., Cotangents]"
"""rule(g, y, *operands, **attributes): g is the cotangent of the result y; both are lists for an op with several
results."""

FAMILIES = ("pointwise", "shape", "reduction", "contraction", "indexing", "composite", "marks", "custom", "collective")

_rules: dict[str, Rule] = {}

HIDES = frozenset({"list_insert", "list_concat", "list_split", "list_erase", "quantize"})
"""Ops whose results contain floats without being floats. Derivatives stop there, so they are refused."""

NONE: dict[str, str] = {
    "bitcast": "bits have no derivative",
    "window_reduce": "prod over windows has no rule",
    "collective_wait": "collectives are awaited after differentiation",
    "unique": "which elements are equal changes with the elements",
    **dict.fromkeys(("non_max_suppression", "arg_reduce", "nonzero"), "its results are indices"),
    **dict.fromkeys(HIDES, "floats are not followed through lists of tensors"),
    **dict.fromkeys(("packed_dot", "packed_conv", "packed_block_dot"), "operands are packed after differentiation"),
    "segment_reduce": "scatters are ordered after differentiation",
    "quantize": "its results are integers; differentiate what stands in for rounding (a straight-through estimate)",
}
"""Reasons why an op (or a form of it) has no derivative."""

CONTROL = frozenset({"if", "loop"})
"""Ops with regions, whose rules are in `control.py`."""

ZERO = frozenset({"sign", "floor", "ceil", "round", "trunc", "floordiv", "stop_gradient"})
"""Constant wherever they have a derivative, or declared constant."""


class NoRule(Exception):
    """Raised by a rule for a case without a derivative, with the reason."""


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
    """How an op is differentiated: "rule", "composite" (through its decomposition), "control", "zero" or "none";
    "discrete" if no float operand or no float result exists."""
    if name in rules():
        return "rule"
    if name in CONTROL:
        return "control"
    if name in ZERO:
        return "zero"
    if name in NONE:
        return "none"
    return "composite" if REGISTRY[name].decompose is not None else "discrete"
