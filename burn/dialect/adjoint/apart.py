"""Composites without a rule: taken apart, and what they are made of is differentiated.

One that is built is replaced by its parts. Attention is not: back ends have kernels for it and for its way back
(`attention_gradient.py`); only where these do not do (a mask is owed something) are its parts computed anew. One that is
recorded cannot be replaced: its parts may be loops, which are only ever built. Its cotangents are recorded as one op,
`burn.vjp`, a composite itself.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.attention_gradient import has_kernels
from burn.dialect.compose import as_list
from burn.dialect.deferred import Application, Deferred, Value
from burn.dialect.mlir import context, ir
from burn.dialect.op import REGISTRY, Op, Variadic
from burn.dialect.types import TensorType, type_of

WHOLE = frozenset({"attention", "attention_forward"})
"""Composites that have kernels of their own: the forward way keeps them."""


def built(op: Op, owed: Sequence[Value | None], wanted: Sequence[Value]) -> list[Value | None]:
    """The cotangents of some operands of a composite in a program."""
    from burn.dialect.adjoint.reverse import gradients

    assert op.decompose is not None
    if op.OP_NAME in WHOLE:
        given = _attention(op.args, op.attrs, owed, wanted, op)
        if given is not None:
            return given
        return gradients(as_list(op.decompose(*op.args, **op.attrs)), owed, wanted)
    with ir.InsertionPoint(op.operation):  # where all that uses its results can use these
        parts = as_list(op.decompose(*op.args, **op.attrs))
    for old, new in zip(op.operation.results, parts, strict=True):
        old.replace_all_uses_with(new)
    return gradients(parts, owed, wanted)


def _attention(
    operands: Sequence[Any],
    attrs: dict[str, Any],
    owed: Sequence[Value | None],
    wanted: Sequence[Any],
    op: Op | None = None,
) -> list[Value | None] | None:
    """What queries, keys and values are owed, by an op that has kernels; None where it has none. op: the attention in the
    program, which is replaced by one that also gives what the way back needs."""
    q, k, v, mask, lengths = operands
    if any(x not in (q, k, v) for x in wanted) or any(g is not None for g in owed[1:]):
        return None
    if not has_kernels(type_of(q), type_of(v), attrs["precision"]):
        return None
    if op is None:
        y, norms = ops.attention_forward(*operands, **attrs)
    elif op.OP_NAME == "attention_forward":
        y, norms = op.operation.results
    else:
        with ir.InsertionPoint(op.operation):
            y, norms = ops.attention_forward(*operands, **attrs)
        op.operation.results[0].replace_all_uses_with(y)
    parts = as_list(ops.attention_backward(q, k, v, mask, lengths, y, norms, owed[0], **attrs))
    return [_total([part for side, part in zip((q, k, v), parts, strict=True) if side == x]) for x in wanted]


def _total(parts: Sequence[Value]) -> Value:
    return functools.reduce(ops.add, parts)


def recorded(application: Application, owed: Sequence[Value | None], wanted: Sequence[Value]) -> list[Value | None]:
    """The same of a composite that is recorded."""
    flat: list[Deferred] = []
    counts = []
    for operand in application.operands:
        group = operand if isinstance(operand, list) else [] if operand is None else [operand]
        counts.append(len(group))
        flat += group
    places = [[i for i, v in enumerate(flat) if v is value] for value in wanted]
    given = [g for g in owed if g is not None]
    made = ops.vjp(
        [*flat, *given],
        of=application.op.OP_NAME,
        settings=_written(application.op, application.attrs),
        counts=tuple(counts),
        owed=tuple(i for i, g in enumerate(owed) if g is not None),
        wanted=tuple(i for group in places for i in group),
    )
    parts = iter(as_list(made))
    return [_total([next(parts) for _ in group]) for group in places]


def _written(cls: type[Op], attrs: dict[str, Any]) -> tuple[str, ...]:
    """Attributes as MLIR writes them, in their class's order; "" for one that is absent."""
    with context(), ir.Location.unknown():
        return tuple("" if attrs[k] is None else str(a.codec.encode(attrs[k])) for k, a in cls.ATTRS.items())


class Vjp(Op, name="vjp"):
    """The cotangents of the operands `wanted` of a composite `of`, whose operands (`counts` of each group) are the first values,
    and those of its results `owed` the last. `attributes` are its own, as text. A value that is several operands has a cotangent
    for each. Shapes: those of the operands wanted."""

    values: Variadic
    of: str
    settings: tuple[str, ...]
    counts: tuple[int, ...]
    owed: tuple[int, ...]
    wanted: tuple[int, ...]

    @classmethod
    def infer(cls, values: list[TensorType], of: str, wanted: tuple[int, ...], **rest: Any) -> list[TensorType]:
        return [values[i] for i in wanted]

    @classmethod
    def decompose(
        cls,
        values: list[ir.Value],
        of: str,
        settings: tuple[str, ...],
        counts: tuple[int, ...],
        owed: tuple[int, ...],
        wanted: tuple[int, ...],
    ) -> list[ir.Value]:
        from burn.dialect.adjoint.reverse import gradients

        values = _distinct(values)
        made = REGISTRY[of]
        assert made.decompose is not None
        attrs = {
            k: a.codec.decode(ir.Attribute.parse(text)) if text else None
            for (k, a), text in zip(made.ATTRS.items(), settings, strict=True)
        }
        operands: list[Any] = []
        start = 0
        for (_, kind), count in zip(made.OPERANDS, counts, strict=True):
            group = values[start : start + count]
            operands.append(group if kind == "variadic" else group[0] if group else None)
            start += count
        asked = [values[i] for i in wanted]
        cotangents: list[ir.Value | None] = [None] * (max(owed) + 1)
        for place, g in zip(owed, values[start:], strict=True):
            cotangents[place] = g
        results = _attention(operands, attrs, cotangents, asked) if of in WHOLE else None
        if results is None:
            parts = as_list(made.decompose(*operands, **attrs))
            results = gradients(parts, [*cotangents, *[None] * (len(parts) - len(cotangents))], asked)
        return [_or_zero(g, values[i]) for g, i in zip(results, wanted, strict=True)]


def _distinct(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Each operand stands for itself, also where a pass made one value of two: its cotangent is its own, not their sum."""
    found: list[ir.Value] = []
    for value in values:
        found.append(ops.reshape(value, shape=type_of(value).shape) if value in found else value)
    return found


def _or_zero(g: Value | None, like: Value) -> Any:
    type_ = type_of(like)
    return ops.full(shape=type_.shape, dtype=type_.dtype, value=0.0) if g is None else g
