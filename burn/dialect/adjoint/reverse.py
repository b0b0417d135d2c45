"""The reverse walk from results to the values that they depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from burn.dialect import ops
from burn.dialect.adjoint import complexes
from burn.dialect.adjoint import rules as table
from burn.dialect.adjoint.joined import joined
from burn.dialect.compose import broadcast_to, convert, reshape
from burn.dialect.control import captured
from burn.dialect.copies import Copies, seeing
from burn.dialect.deferred import Application, Deferred, Value
from burn.dialect.dims import floordiv
from burn.dialect.op import Op, site
from burn.dialect.query import op_of
from burn.dialect.types import CONTINUOUS, DTYPES, PARTS, TensorType, type_of
from burn.errors import Problem, TypeMismatch


@dataclass(frozen=True)
class Custom:
    """Values with a custom backward function. `backward(operands, residuals, cotangents, wanted)` takes a cotangent or
    None for each of `results`. It returns a cotangent or None for each of `operands`; only those that are `wanted` need
    one.

    All these values are aliases built along with the results (`sections.alias`): nothing replaces them in the program,
    and a copy of the ops around the results has copies of them. copies: the maps of the tensors that `backward` holds
    (`dialect/copies.py`).
    """

    results: tuple[Value, ...]
    operands: tuple[Value, ...]
    residuals: tuple[Value, ...]
    backward: Backward
    copies: tuple[Copies, ...] = ()


Backward: TypeAlias = Callable[
    [Sequence[Value], Sequence[Value], Sequence["Value | None"], Sequence[bool]], "Sequence[Value | None]"
]


class Customs(dict[Any, Custom]):
    """By each of the results. The backward pass of a region with such results adds its own.

    kept: what owns values among the keys, or values that backward functions hold. MLIR's values do not keep their ops alive, and
    a new op may get the address of one that is freed."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[object] = []


def move_customs(customs: Customs, copies: Copies, around: tuple[Copies, ...] = ()) -> None:
    """Copies of values with backward functions get these functions. around: the enclosing copies."""
    for custom in {id(c): c for v in copies if (c := customs.get(v)) is not None}.values():
        names = ("results", "operands", "residuals")
        moved: dict[str, Any] = {n: tuple(copies.get(v, v) for v in getattr(custom, n)) for n in names}
        customs.update(
            dict.fromkeys(moved["results"], replace(custom, **moved, copies=(*custom.copies, copies, *around)))
        )


def gradients(
    outputs: Sequence[Value],
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    customs: Customs | None = None,
) -> list[Value | None]:
    """The cotangents of `inputs`, given those of `outputs`; None for an input that no output depends on.

    Builds ops at the insertion point (or records them). Inputs count as independent of each other. Differentiated
    composites and loops are replaced in the program by ops that compute the same results and further values for the
    backward pass. Raises TypeMismatch naming every op on the path that has no derivative.
    """
    walk = _Walk(inputs, Customs() if customs is None else customs)
    order = walk.order(outputs)
    walk.refuse(order)
    for value, g in zip(outputs, cotangents, strict=True):
        if g is not None and walk.is_active(value):
            walk.accumulate(value, g)
    for node in reversed(order):
        result_cotangents = [None if r in walk.inputs else walk.total(r) for r in node.results]
        if any(g is not None for g in result_cotangents):
            with node.located():
                for operand, g in walk.passed_on(node, result_cotangents):
                    walk.accumulate(operand, g)
    return [walk.total(value) for value in inputs]


@dataclass
class Node:
    """An op, built or recorded, or several values with a custom rule."""

    name: str
    source: Op | Application | Custom
    operands: list[Any]  # in the builder's form
    attrs: dict[str, Any]
    results: list[Value]

    def values(self) -> Iterator[Value]:
        """Its operands, and the values that its regions capture."""
        yield from _flat(self.operands)
        if isinstance(self.source, Op) and self.source.REGIONS:
            yield from captured(self.source)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Ops built inside get the op's location."""
        if isinstance(self.source, Op):
            with self.source.operation.location:
                yield
        else:
            yield


def _flat(operands: Iterable[Any]) -> Iterator[Value]:
    for operand in operands:
        if isinstance(operand, list):
            yield from operand
        elif operand is not None:
            yield operand


class _Walk:
    """The state of the walk. active: True for values that depend on an input; partial: the parts of a value's cotangent
    so far."""

    def __init__(self, inputs: Sequence[Value], customs: Customs) -> None:
        self.inputs = set(inputs)
        self.customs = customs
        self.active: dict[Any, bool] = dict.fromkeys(inputs, True)
        self.partial: dict[Any, list[Value]] = {}

    def node(self, value: Value) -> Node | None:
        """The op that defines a value; None if the walk ends there."""
        if value in self.inputs:
            return None
        if value in self.customs:
            custom = self.customs[value]
            return Node("custom", custom, list(custom.operands), {}, list(custom.results))
        if isinstance(value, Deferred):
            application = value.origin or value.application
            if application is None:
                return None
            return Node(application.op.OP_NAME, application, application.operands, application.attrs, application.all())
        op = op_of(value)
        return None if op is None else Node(op.OP_NAME, op, op.args, op.attrs, list(op.operation.results))

    def is_active(self, value: Value) -> bool:
        return self.active.get(value, False)

    def order(self, outputs: Sequence[Value]) -> list[Node]:
        """The ops in between, operands first."""
        found: list[Node] = []
        seen: set[Any] = set(self.inputs)
        stack: list[tuple[Value, Node | None]] = [(v, None) for v in reversed(list(outputs))]
        while stack:
            value, node = stack.pop()
            if node is not None:  # all its dependences have been visited
                active = any(self.is_active(v) for v in node.values())
                made = [r for r in node.results if r not in self.inputs]  # an op of several results may make an input
                for result in made:
                    self.active[result] = active and type_of(result).dtype in CONTINUOUS
                if any(self.is_active(r) for r in made) or (active and _hides(node)):
                    found.append(node)
                continue
            if value in seen or (node := self.node(value)) is None:
                continue
            seen.update(node.results)
            stack.append((value, node))
            stack += [(v, None) for v in node.values() if v not in seen]
        return found

    def refuse(self, order: Sequence[Node]) -> None:
        """Raises TypeMismatch naming every op that has no rule."""
        problems = [
            Problem(f"burn.{n.name} cannot be differentiated: {_reason(n)}", op=n.name, node=_site(n))
            for n in order
            if n.name != "custom" and (_hides(n) or (table.kind(n.name) in ("none", "discrete") and not _is_complex(n)))
        ]
        if problems:
            raise TypeMismatch("this cannot be differentiated", problems)

    def accumulate(self, value: Value, g: Value) -> None:
        if self.is_active(value):
            self.partial.setdefault(value, []).append(fit(g, type_of(value)))

    def total(self, value: Value) -> Value | None:
        parts = self.partial.get(value)
        if not parts:
            return None
        parts[:] = joined(parts)
        while len(parts) > 1:
            parts[:2] = [ops.add(parts[0], parts[1])]
        return parts[0]

    def passed_on(self, node: Node, result_cotangents: list[Value | None]) -> Iterator[tuple[Value, Value]]:
        """The cotangents of an op's operands, given those of its results."""
        if isinstance(node.source, Custom):
            wanted = [self.is_active(v) for v in node.operands]
            with seeing(node.source.copies):
                given = node.source.backward(node.operands, node.source.residuals, result_cotangents, wanted)
            pairs: Iterable[tuple[Value, Value | None]] = zip(node.operands, given, strict=True)
        elif node.name in table.ZERO and not _is_complex(node):
            return
        elif node.name in table.CONTROL:
            from burn.dialect.adjoint import control

            assert isinstance(node.source, Op)
            pairs = control.RULES[node.name](node.source, result_cotangents, self.is_active, self.customs)
        else:
            pairs = self._by_rule(node, result_cotangents)
        yield from ((value, g) for value, g in pairs if g is not None)

    def _by_rule(self, node: Node, result_cotangents: list[Value | None]) -> list[tuple[Value, Value | None]]:
        given: Any = NotImplemented
        one = len(node.results) == 1
        rule = complexes.rule_of(node.name, node.attrs) if _is_complex(node) else table.rules().get(node.name)
        if rule is not None:
            g, y = (result_cotangents[0], node.results[0]) if one else (result_cotangents, node.results)
            try:
                given = rule(g, y, *node.operands, **node.attrs)
            except table.NoRule as error:
                problem = Problem(f"burn.{node.name}: {error}", op=node.name, node=_site(node))
                raise TypeMismatch("this cannot be differentiated", [problem]) from None
        if given is NotImplemented:
            return self._apart(node, result_cotangents)
        parts = given if isinstance(given, (list, tuple)) else [given]
        pairs: list[tuple[Value, Value | None]] = []
        for operand, part in zip(node.operands, parts, strict=False):
            if isinstance(operand, list):
                pairs += zip(operand, part, strict=True)
            elif operand is not None:
                pairs.append((operand, part))
        return pairs

    def _apart(self, node: Node, result_cotangents: list[Value | None]) -> list[tuple[Value, Value | None]]:
        """Differentiates a composite through its decomposition."""
        from burn.dialect.adjoint import apart

        wanted = [v for v in dict.fromkeys(_flat(node.operands)) if self.is_active(v)]
        if isinstance(node.source, Op):
            given = apart.built(node.source, result_cotangents, wanted)
        else:
            assert isinstance(node.source, Application)
            given = apart.recorded(node.source, result_cotangents, wanted)
        return list(zip(wanted, given, strict=True))


def _site(node: Node) -> str:
    if isinstance(node.source, Op):
        return site(node.source)
    return node.source.site if isinstance(node.source, Application) else ""


def _hides(node: Node) -> bool:
    """True if results hold floats without derivatives: in lists, or floats of 8 bits or less."""
    return node.name in table.HIDES or any(DTYPES[type_of(r).dtype].kind == "small" for r in node.results)


def _is_complex(node: Node) -> bool:
    """True if an operand or a result is complex."""
    return any(type_of(v).dtype in PARTS for v in (*_flat(node.operands), *node.results))


def _reason(node: Node) -> str:
    if node.name not in table.HIDES and _hides(node):
        return f"floats are not followed through {type_of(node.results[0]).dtype}"
    return table.NONE.get(node.name, "it has no rule")


def fit(g: Value, type_: TensorType) -> Value:
    """Fits a cotangent to the operand's type: sums over broadcast axes, and broadcasts if all elements share one."""
    shape = type_of(g).shape
    if shape != type_.shape:
        lead = len(shape) - type_.rank
        if lead < 0:
            shape = (1,) * -lead + shape
            g, lead = reshape(g, shape), 0
        axes = [*range(lead), *(lead + i for i, d in enumerate(type_.shape) if d == 1 != shape[lead + i])]
        if axes:
            g = ops.reduce(g, kind="sum", axes=tuple(axes), keepdims=True)
            g = reshape(g, type_of(g).shape[lead:])
        g = broadcast_to(_at_run_time(g, type_), type_.shape)
    return convert(g, type_.dtype)


def _at_run_time(g: Value, type_: TensorType) -> Value:
    """Sums over axes if only the run tells whether the operand was broadcast along them: an axis of t elements is d
    rows of t / d, for d = t and for d = 1."""
    for axis, (t, d) in enumerate(zip(type_of(g).shape, type_.shape, strict=True)):
        if t == d or t == 1:
            continue
        shape = type_of(g).shape
        g = ops.reshape(g, shape=(*shape[:axis], d, floordiv(t, d), *shape[axis + 1 :]))
        g = ops.reduce(g, kind="sum", axes=(axis + 1,))
    return g
