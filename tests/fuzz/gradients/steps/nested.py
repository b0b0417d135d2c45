"""Functions in functions: checkpoints, loops, branches, own derivatives and derivatives, with values captured at every depth."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.gradients.draft import Draft, Texts
from tests.fuzz.gradients.steps.control import kept
from tests.fuzz.gradients.steps.registry import both, step

DEPTHS = (2, 2, 2, 3, 3, 4)
KINDS = ("again", "again", "again", "captured", "captured", "own", "own", "scan", "count", "choose", "slope")


def nested(d: Draft, e: str, shape: Sequence[int], scope: Sequence[str], depth: int) -> str:
    """An expression of a shape: `depth` functions in functions, of the value `e`, of those in scope, and of values around."""
    if not depth:
        return kept(d, e, shape, scope, 1)
    a, b = f"a{depth}", f"b{depth}"
    other = d.among(e, *scope)
    kind = d.among(*KINDS)
    if kind == "again":
        return (
            f"m.checkpoint(lambda {a}, {b}: {nested(d, a, shape, [*scope, b], depth - 1)})({e} * 0.9, {other}.tanh())"
        )
    if kind == "captured":
        return f"m.checkpoint(lambda: {nested(d, e, shape, scope, depth - 1)} * {other})()"
    if kind == "own":
        inner = nested(d, e, shape, scope, depth - 1)
        return f"m.own(lambda {a}: {a} * {other} + {a}, lambda r, g: (g * ({other} * 0.5).tanh() + g * r[0],), {inner})"
    if kind == "scan":
        body = nested(d, a, shape, [*scope, b], depth - 1)
        return f"m.scan(lambda {a}, {b}: ({body}, {a} * {b}), {e}, m.stack([{other} * 0.5, {e}.tanh()]))[0]"
    if kind == "count":
        return f"m.fori_loop(0, 2, lambda i, {a}: {nested(d, a, shape, scope, depth - 1)}, {e})"
    if kind == "choose":
        body = nested(d, a, shape, scope, depth - 1)
        return f"m.cond({other}.sum() > 0.0, lambda {a}: {body}, lambda {a}: {a} * {other}, {e})"
    return f"m.derivative(lambda {a}: ({nested(d, a, shape, scope, depth - 1)}).sum(), {e})"


@step(6)
def functions(d: Draft) -> Texts:
    x = d.value(lambda v: v.size <= 24, empty=False)
    return both(nested(d, x.name, x.shape, [], d.among(*DEPTHS)))
