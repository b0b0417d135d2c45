"""Rules for equations with complex operands or results: pairs of real values. Enter at `rule_of`.

    @complex_primitive("mul")
    def mul(eqn: Equation, a: Any, b: Any) -> Complex:
        return times(as_complex(a), as_complex(b))

An equation with a complex operand or result takes its rule from `COMPLEX`, and from nowhere else; any other has its rule in
`RULES`. A primitive that only moves elements, or is linear in them, does the same to both parts (`by_parts`). One that runs other
jaxprs, or is expanded into a function of JAX's arrays, has the rule for real values (`as_it_is`). In the rules, the element type
of a complex result is that of its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burn.dialect.complexes.pair import Complex, part_of
from burn.dialect.deferred import Value
from burn.importers.jax.dtypes import is_complex
from burn.importers.jax.equation import RULES, Equation, Rule
from burn.importers.lax.scalars import full

COMPLEX: dict[str, Rule] = {}
"""A primitive's name -> its rule for complex values."""


def complex_primitive(*names: str) -> Callable[[Rule], Rule]:
    """Enters a rule that takes and gives `Complex`, or real values where JAX does."""

    def register(rule: Rule) -> Rule:
        for name in names:
            if name in COMPLEX:
                raise ValueError(f"{name} has two rules for complex numbers")
            COMPLEX[name] = rule
        return rule

    return register


def computes_with_complex(eqn: Any) -> bool:
    """True if an operand or a result is complex."""
    return any(is_complex(getattr(v.aval, "dtype", None)) for v in (*eqn.invars, *eqn.outvars))


def rule_of(eqn: Any) -> Rule | None:
    """The rule of JAX's equation; None if it has none."""
    return (COMPLEX if computes_with_complex(eqn) else RULES).get(eqn.primitive.name)


def by_parts(eqn: Equation, *operands: Any, **params: Any) -> Any:
    """The primitive's rule for each part alone. Real operands go with both; a real result comes from the real part."""
    found = [_listed(eqn.call(RULES[eqn.op], [part_of(v, name) for v in operands])) for name in ("real", "imag")]
    return [
        Complex(re, im) if is_complex(v.aval.dtype) else re for re, im, v in zip(*found, eqn.eqn.outvars, strict=True)
    ]


def _listed(result: Any) -> list[Value]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def as_it_is(eqn: Equation, *operands: Any, **params: Any) -> Any:
    """The rule for real values, which treats complex ones alike."""
    return eqn.call(RULES[eqn.op], operands)


def zeros(eqn: Equation, aval: Any) -> Any:
    """A value of zeros of JAX's type."""
    found = full(eqn.type_of(aval), 0)
    return Complex(found, found) if is_complex(aval.dtype) else found
