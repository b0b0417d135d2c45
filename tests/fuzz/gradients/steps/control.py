"""Loops, conditions, functions computed again, functions with derivatives of their own."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.gradients.draft import Draft, Texts, Unfit, Value, broadcasts
from tests.fuzz.gradients.steps.registry import both, step

DEEPEST = 2


def kept(d: Draft, name: str, shape: Sequence[int], others: Sequence[str] = (), depth: int = 0) -> str:
    """An expression of the shape of the tensor `name`, of it, of `others` (which broadcast to it), and of values around."""
    shape = tuple(shape)
    around = [v.name for v in d.values.values() if broadcasts(v.shape, shape)]
    a, b = name, d.among(name, *others, *others, *around[:2])
    if depth < DEEPEST and d.flag(0.5):
        a = f"({kept(d, name, shape, others, depth + 1)})"
    options = [
        f"({a} * 0.7).sin()", f"{a}.tanh() + {b} * 0.3", f"({a} * {b}).tanh()", f"{a} * 0.5 + {b}",
        f"{a} / (1.0 + {b} * {b})", f"m.maximum({a}, {b})", f"m.where({a} > {b}, {a}, {b} * 0.5)", f"{a}.sigmoid() - {b}",
    ]  # fmt: skip
    if shape:
        options += [
            f"{a}.softmax(-1) + {b}",
            f"{a}.flip(-1) * 0.9",
            f"{a}.cumsum(-1) * 0.4",
            f"{a} - {a}.sum(-1, True) * 0.2",
        ]
        if d.flag(0.3) and shape[-1]:
            options.append(f"({a} @ {d.new((shape[-1], shape[-1]), 0.5)}).tanh()")
    return d.chance.choice(options)


def _carried(d: Draft) -> Value:
    return d.value(lambda v: v.size <= 60, empty=False)


@step(4)
def scanned(d: Draft) -> tuple[Texts, int]:
    xs = d.value(lambda v: v.rank > 0 and 0 < v.shape[0] <= 5 and 0 < v.size <= 60)
    inner = xs.shape[1:]
    carry = d.new(inner)
    new = kept(d, "c", inner, ("s",))
    out = kept(d, "s", inner, ("c",))
    return both(f"m.scan(lambda c, s: ({new}, {out}), {carry}, {xs})"), 2


@step(2)
def counted(d: Draft) -> Texts:
    x = _carried(d)
    trips = d.among(0, 1, 2, 3, 4)
    if d.flag(0.3):
        n = d.whole(4, ())
        return both(f"m.fori_loop(0, {n}, lambda i, c: {kept(d, 'c', x.shape)}, {x})")
    start = d.among(0, 1)
    return both(
        f"m.fori_loop({start}, {start + trips}, lambda i, c: {kept(d, 'c', x.shape)} + 0.1 * m.cast(i, '{d.program.dtype}'), {x})"
    )


@step(2)
def until(d: Draft) -> Texts:
    """A loop that the data end."""
    x = _carried(d)
    most = d.among(1, 2, 4)
    limit = d.among(0.5, 2.0, 8.0)
    body = kept(d, "c[0]", x.shape)
    return both(
        f"m.while_loop(lambda c: (c[0].abs().sum() < {limit}) & (c[1] < {most}), "
        f"lambda c: ({body} + c[0], c[1] + 1), ({x}, m.const(0)))[0]"
    )


@step(2)
def early(d: Draft) -> tuple[Texts, int]:
    x = _carried(d)
    trips, limit = d.among(2, 3, 5), d.among(1.0, 4.0, 1e6)
    body = kept(d, "c", x.shape)
    return both(f"m.loop(lambda i, go, c: (c.abs().sum() < {limit}, {body}, c * c), ({x},), trips={trips}, scans=1)"), 2


@step(3)
def conditional(d: Draft) -> Texts:
    x = _carried(d)
    y = d.value()
    then, other = kept(d, "a", x.shape), kept(d, "a", x.shape)
    if d.flag(0.3):
        inner = kept(d, "b", x.shape)
        then = f"m.cond({y}.sum() > 0.5, lambda b: {inner}, lambda b: b * 2.0, {then})"
    return both(f"m.cond({y}.sum() > 0.0, lambda a: {then}, lambda a: {other}, {x})")


@step(1)
def conditional_in_a_loop(d: Draft) -> tuple[Texts, int]:
    xs = d.value(lambda v: v.rank > 0 and 0 < v.shape[0] <= 4 and 0 < v.size <= 40)
    inner = xs.shape[1:]
    carry = d.new(inner)
    a, b = kept(d, "a", inner, ("s",)), kept(d, "a", inner, ("s",))
    return both(
        f"m.scan(lambda c, s: (m.cond(s.sum() > 0.0, lambda a: {a}, lambda a: {b}, c), c * s), {carry}, {xs})"
    ), 2


@step(1)
def loop_in_a_loop(d: Draft) -> Texts:
    x = d.value(lambda v: 0 < v.size <= 20)
    inner = kept(d, "e", x.shape, ("c",))
    return both(f"m.fori_loop(0, 2, lambda i, c: m.fori_loop(0, {d.among(1, 2)}, lambda k, e: {inner}, c), {x})")


@step(3)
def again(d: Draft) -> Texts:
    """A rematerialised computation, inside a loop or outside."""
    x = _carried(d)
    y = d.fitting(x.shape)
    body = kept(d, "a", x.shape, ("b",) if broadcasts(y.shape, x.shape) else ())
    if d.flag(0.25):
        return both(f"m.fori_loop(0, 2, lambda i, c: m.checkpoint(lambda a, b: {body})(c, {y}), {x})")
    if d.flag(0.2):
        return both(f"m.checkpoint(lambda a, b: m.checkpoint(lambda e: {kept(d, 'e', x.shape)})({body}))({x}, {y})")
    return both(f"m.checkpoint(lambda a, b: {body})({x}, {y})")


@step(3)
def derived(d: Draft) -> Texts:
    """A function with a derivative of its own, the true one or another."""
    x = _carried(d)
    y = d.new(x.shape)
    return both(
        d.among(
            f"m.own(lambda a: a.round(), lambda r, g: (g,), {x})",
            f"m.own(lambda a: a * a * a, lambda r, g: (g * r[0] * 2.0,), {x})",
            f"m.own(lambda a, b: a * b, lambda r, g: (g * r[1].tanh(), g * r[0]), {x}, {y})",
            f"m.own(lambda a, b: (a - b).sin(), lambda r, g: (g * 0.5, None), {x}, {y})",
            f"m.fori_loop(0, 2, lambda i, c: m.own(lambda a: a.sin(), lambda r, g: (g * r[0],), c) + c, {x})",
            f"m.checkpoint(lambda e: m.own(lambda a: a.sign() + a, lambda r, g: (g * r[0],), e) * e)({x})",
        )
    )


@step(1)
def derivative_inside(d: Draft) -> Texts:
    """A derivative that is part of the program."""
    x = d.value(empty=False)
    body = kept(d, "a", x.shape)
    if not x.size:
        raise Unfit
    return (
        f"burn.grad(lambda a: ({body}).sum())({x})",
        f"t.derivative(lambda a: ({body}).sum(), {x})",
    )
