"""Unrolled iterations of scalar bodies: equal expressions of different iterations are one node, and are computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from burn.codegen.triton.code import Axes
from burn.codegen.triton.scalars import ScalarPrinter
from burn.dialect.dims import Atom, Dim, Expr, product, substitute, terms
from burn.kernels.body import (
    Apply,
    Const,
    Convert,
    Index,
    Load,
    Reduced,
    Reinterpret,
    Rewriter,
    Scalar,
    Where,
    children,
    walk,
)


class Instances:
    """Bodies with numbers or other expressions in place of loop variables."""

    def __init__(self) -> None:
        self._nodes: dict[Hashable, Scalar] = {}

    def at(self, body: Scalar, values: Mapping[Atom, Dim], tag: Hashable = None) -> Scalar:
        """The body at an iteration. Conditions that the values decide are resolved. tag: nodes that read results of
        reductions are shared only within one tag."""
        moved = Rewriter(lambda dim: substitute(dim, values))(body)
        made: dict[int, Scalar] = {}
        for node in walk(moved):
            made[id(node)] = self._shared(node, [made[id(child)] for child in children(node)], tag)
        return made[id(moved)]

    def _shared(self, node: Scalar, parts: list[Scalar], tag: Hashable) -> Scalar:
        match node:
            case Const(value=value):
                return self._node((Const, node.dtype, type(value), str(value)), node)
            case Load(buffer=buffer, offset=offset):
                return self._node((Load, buffer, offset), node)
            case Index(dim=dim):
                return self._node((Index, dim), node)
            case Apply(function=function):
                key = (Apply, node.dtype, function, *map(id, parts))
                return self._node(key, Apply(node.dtype, function, tuple(parts)))
            case Convert() if _is_zero(parts[0]):
                return self._node((Const, node.dtype, int, "0"), Const(node.dtype, 0))
            case Convert(saturate=saturate):
                return self._node(
                    (Convert, node.dtype, id(parts[0]), saturate), Convert(node.dtype, parts[0], saturate)
                )
            case Reinterpret():
                return self._node((Reinterpret, node.dtype, id(parts[0])), Reinterpret(node.dtype, parts[0]))
            case Where(ranges=ranges):
                return self._where(node.dtype, ranges, *parts)
            case Reduced(name=name):
                return self._node((Reduced, name, tag), Reduced(node.dtype, name))
        return node

    def _where(self, dtype: str, ranges: tuple[tuple[Dim, Dim], ...], then: Scalar, otherwise: Scalar) -> Scalar:
        known = [0 <= e < n if isinstance(e, int) and isinstance(n, int) else None for e, n in ranges]
        if False in known:
            return otherwise
        ranges = tuple(pair for pair, holds in zip(ranges, known, strict=True) if holds is None)
        if not ranges or then is otherwise or (_is_zero(then) and _is_zero(otherwise)):
            return then
        if isinstance(then, Where) and _is_zero(then.otherwise) and _is_zero(otherwise):
            return self._where(dtype, (*ranges, *then.ranges), then.then, otherwise)
        if isinstance(then, Convert) and _is_zero(otherwise):
            zero = self._node((Const, then.arg.dtype, int, "0"), Const(then.arg.dtype, 0))  # a masked load gives 0
            inner = self._where(then.arg.dtype, ranges, then.arg, zero)
            return self._node((Convert, dtype, id(inner), then.saturate), Convert(dtype, inner, then.saturate))
        key = (Where, dtype, ranges, id(then), id(otherwise))
        return self._node(key, Where(dtype, ranges, then, otherwise))

    def _node(self, key: Hashable, node: Scalar) -> Scalar:
        """Nodes are kept, so that the numbers by which keys name their operands stay unique."""
        return self._nodes.setdefault(key, node)


def _is_zero(node: Scalar) -> bool:
    return isinstance(node, Const) and node.value == 0


def is_nothing(node: Scalar) -> bool:
    """True for a multiplication by a constant 0, as at the taps between the elements of a dilated operand."""
    return (
        isinstance(node, Apply)
        and node.function == "mul"
        and any(isinstance(arg, Const) and arg.value == 0 for arg in node.args)
    )


@dataclass
class InstancePrinter(ScalarPrinter):
    """A printer of unrolled iterations. Addresses and conditions of different iterations share their parts."""

    _parts: list[dict[Hashable, str]] = field(default_factory=lambda: [{}])

    @contextmanager
    def scope(self) -> Iterator[None]:
        self._parts.append({})
        with super().scope():
            yield
        self._parts.pop()

    def _part(self, key: Hashable, text: Callable[[], str], prefix: str) -> str:
        for known in reversed(self._parts):
            if key in known:
                return known[key]
        name = self._parts[-1][key] = self.code.let(text(), prefix)
        return name

    def _address(self, buffer: int, offset: Dim, wanted: Axes) -> tuple[str, str]:
        """The terms of a thread's own indices are computed once for all offsets that differ in the others."""
        own: Dim = 0
        for monomial, count in terms(offset):
            term = product([count, *(Expr.of(atom) for atom in monomial)])
            own = own + (term if self.span(term) else 0)
        if own == 0 or buffer in self.private:
            return super()._address(buffer, offset, wanted)
        _, mask = super()._address(buffer, offset, wanted)
        base = self._part(("base", buffer, own), lambda: f"b{buffer} + {self.dim(own)}", "base")
        rest = offset - own
        text = base if rest == 0 else f"{base} + {self.dim(rest)}"
        for name in sorted(wanted - self.span(offset)):
            text = f"{text} + {self.axes[name].indices} * 0"
        return text, mask

    def tests(self, ranges: Sequence[tuple[Dim, Dim]]) -> list[str]:
        return [
            self._part(("test", pair), lambda pair=pair: " & ".join(super(InstancePrinter, self).tests([pair])), "test")
            for pair in ranges
        ]
