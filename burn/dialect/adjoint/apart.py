"""Composites without a rule: decomposed, and differentiated op by op.

A built composite is replaced by its decomposition. Attention is not: back ends have kernels for it and for its backward
pass (`attention_gradient.py`). Only if these do not apply (heads of another kind) is its decomposition built. A
recorded composite cannot be replaced, because its decomposition may contain loops, which are never recorded. Its
cotangents are recorded as one op, `burn.vjp`, itself a composite.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.attention import has_kernels
from burn.dialect.complexes.lowering import expansion
from burn.dialect.compose import as_list
from burn.dialect.deferred import Application, Deferred, Value
from burn.dialect.mlir import context, ir
from burn.dialect.op import REGISTRY, Op, Variadic
from burn.dialect.types import TensorType, type_of

WHOLE = ("attention", "attention_forward")
"""Composites with kernels of their own, which the forward pass keeps."""


def built(op: Op, result_cotangents: Sequence[Value | None], wanted: Sequence[Value]) -> list[Value | None]:
    """The cotangents of some operands of a composite in a program."""
    from burn.dialect.adjoint.reverse import gradients

    decompose = expansion(type(op), op.args, op.attrs) or op.decompose
    assert decompose is not None
    if op.OP_NAME in WHOLE:
        given = _attention(op.OP_NAME, op.args, op.attrs, result_cotangents, wanted, op)
        if given is not None:
            return given
        if op.key is None:
            return gradients(as_list(decompose(*op.args, **op.attrs)), result_cotangents, wanted)
    return _replaced(op, decompose, result_cotangents, wanted)  # numbers drawn in the forward pass are in memory once


def _replaced(
    op: Op, decompose: Callable[..., Any], result_cotangents: Sequence[Value | None], wanted: Sequence[Value]
) -> list[Value | None]:
    """The cotangents of a composite's operands, after its decomposition has replaced it."""
    from burn.dialect.adjoint.reverse import gradients

    with ir.InsertionPoint(op.operation):  # here, the decomposition dominates every use of the results
        parts = as_list(decompose(*op.args, **op.attrs))
    for old, new in zip(op.operation.results, parts, strict=True):
        old.replace_all_uses_with(new)
    return gradients(parts, result_cotangents, wanted)


def _attention(
    name: str,
    operands: Sequence[Any],
    attrs: dict[str, Any],
    result_cotangents: Sequence[Value | None],
    wanted: Sequence[Any],
    op: Op | None = None,
) -> list[Value | None] | None:
    """The gradients of the queries, keys, values and mask of an op with this name. None if there is no op with kernels for
    them. op: the attention in the program, which is replaced by one that also returns statistics for the backward pass."""
    from burn.dialect.adjoint.reverse import fit

    q, _, v, mask = differentiable = operands[:4]
    if any(g is not None for g in result_cotangents[1:]) or not has_kernels(type_of(q), type_of(v), attrs["precision"]):
        return None
    if name == "attention_forward" and op is not None:
        y, norms = op.operation.results
    elif op is None:
        y, norms = ops.attention_forward(*operands, **attrs)
    else:
        with ir.InsertionPoint(op.operation):
            y, norms = ops.attention_forward(*operands, **attrs)
        op.operation.results[0].replace_all_uses_with(y)
    of_mask = mask is not None and mask in wanted
    parts = as_list(ops.attention_backward(*operands, y, norms, result_cotangents[0], **attrs, mask_gradient=of_mask))
    given = [(x, fit(part, type_of(x))) for x, part in zip(differentiable, parts, strict=False)]
    return [_total([part for operand, part in given if operand == x]) for x in wanted]


def _total(parts: Sequence[Value]) -> Value:
    return functools.reduce(ops.add, parts)


def recorded(
    application: Application, result_cotangents: Sequence[Value | None], wanted: Sequence[Value]
) -> list[Value | None]:
    """The cotangents of some operands of a recorded composite."""
    flat: list[Deferred] = []
    counts = []
    for operand in application.operands:
        group = operand if isinstance(operand, list) else [] if operand is None else [operand]
        counts.append(len(group))
        flat += group
    positions = [[i for i, v in enumerate(flat) if v is value] for value in wanted]
    given = [g for g in result_cotangents if g is not None]
    made = ops.vjp(
        [*flat, *given],
        of=application.op.OP_NAME,
        settings=_written(application.op, application.attrs),
        counts=tuple(counts),
        seeds=tuple(i for i, g in enumerate(result_cotangents) if g is not None),
        wanted=tuple(i for group in positions for i in group),
    )
    parts = iter(as_list(made))
    return [_total([next(parts) for _ in group]) for group in positions]


def _written(cls: type[Op], attrs: dict[str, Any]) -> tuple[str, ...]:
    """Attributes in MLIR's syntax, in their class's order; "" for an absent one."""
    with context(), ir.Location.unknown():
        return tuple("" if attrs[k] is None else str(a.codec.encode(attrs[k])) for k, a in cls.ATTRS.items())


_GROUPS: dict[str, Container[int]] = {"single": (1,), "optional": (0, 1), "variadic": range(1 << 31)}
"""The numbers of operands that a group of each kind may have."""


class Vjp(Op, name="vjp"):
    """The cotangents of the operands `wanted` of a composite `of`. The first values are its operands (`counts` of each
    group), the last are the cotangents of its results `seeds`. `settings` are the composite's attributes, as text. A
    value that is several operands has a cotangent for each. Shapes: those of the operands wanted."""

    values: Variadic
    of: str
    settings: tuple[str, ...]
    counts: tuple[int, ...]
    seeds: tuple[int, ...]
    wanted: tuple[int, ...]

    @classmethod
    def infer(
        cls,
        values: list[TensorType],
        of: str,
        settings: tuple[str, ...],
        counts: tuple[int, ...],
        seeds: tuple[int, ...],
        wanted: tuple[int, ...],
    ) -> list[TensorType]:
        made = REGISTRY.get(of)
        if made is None:
            cls.fail(f"there is no op {of!r}", "of")
        if len(settings) != len(made.ATTRS):  # text of another version may have more or fewer
            cls.fail(f"burn.{of} has {len(made.ATTRS)} attributes, not {len(settings)}", "settings")
        limits = [_GROUPS[kind] for _, kind in made.OPERANDS]
        if len(counts) != len(limits) or any(n not in allowed for n, allowed in zip(counts, limits, strict=True)):
            cls.fail(f"{list(counts)} operands do not fit burn.{of}", "counts")
        if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds) or sum(counts) + len(seeds) != len(values):
            cls.fail(f"{len(values)} values are not {sum(counts)} operands and the cotangents {list(seeds)}", "seeds")
        if any(i not in range(sum(counts)) for i in wanted):
            cls.fail(f"{list(wanted)} are not all indices of {sum(counts)} operands", "wanted")
        return [values[i] for i in wanted]

    @classmethod
    def decompose(
        cls,
        values: list[ir.Value],
        of: str,
        settings: tuple[str, ...],
        counts: tuple[int, ...],
        seeds: tuple[int, ...],
        wanted: tuple[int, ...],
    ) -> list[ir.Value]:
        from burn.dialect.adjoint.reverse import gradients

        values = _distinct(values)
        made = REGISTRY[of]
        attrs = {k: cls._setting(of, k, text) for k, text in zip(made.ATTRS, settings, strict=True)}
        operands: list[Any] = []
        start = 0
        for (_, kind), count in zip(made.OPERANDS, counts, strict=True):
            group = values[start : start + count]
            operands.append(group if kind == "variadic" else group[0] if group else None)
            start += count
        asked = [values[i] for i in wanted]
        cotangents: list[ir.Value | None] = [None] * (max(seeds) + 1)
        for result, g in zip(seeds, values[start:], strict=True):
            cotangents[result] = g
        results = _attention(of, operands, attrs, cotangents, asked) if of in WHOLE else None
        if results is None:
            decompose = expansion(made, operands, attrs) or made.decompose
            assert decompose is not None
            parts = as_list(decompose(*operands, **attrs))
            results = gradients(parts, [*cotangents, *[None] * (len(parts) - len(cotangents))], asked)
        return [_or_zero(g, values[i]) for g, i in zip(results, wanted, strict=True)]

    @classmethod
    def _setting(cls, of: str, name: str, text: str) -> Any:
        """The composite's attribute that `_written` wrote. Raises TypeMismatch."""
        attribute = REGISTRY[of].ATTRS[name]
        try:
            return attribute.codec.decode(ir.Attribute.parse(text)) if text else None
        except (ValueError, TypeError, ir.MLIRError):
            cls.fail(f"{text} is not a value of {name} of burn.{of}, of type {attribute.annotation}", "settings")


def _distinct(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Makes operands distinct, even if a pass merged two of them: each needs its own cotangent, not the sum."""
    found: list[ir.Value] = []
    for value in values:
        found.append(ops.reshape(value, shape=type_of(value).shape) if value in found else value)
    return found


def _or_zero(g: Value | None, like: Value) -> Any:
    type_ = type_of(like)
    return ops.full(shape=type_.shape, dtype=type_.dtype, value=0.0) if g is None else g
