"""An ONNX graph being written: nodes in scopes, constants, names. Enter at `GraphWriter.node`.

Every name is unique over all scopes, as ONNX requires, and has a known element type. `node` looks the operator up in
ONNX's own schemas: the version in this opset, the types of operands and results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import onnx
from burn.dialect.dims import Dim
from burn.dialect.types import DTYPES, TensorType
from burn.dialect.weights import Weight, array_weight
from burn.exporters.onnx.kernels import carrier, computed_in
from burn.importers.onnx.tensors import ELEMENT_TYPES
from onnx import AttributeProto, NodeProto, helper

CODES = {name: code for code, name in ELEMENT_TYPES.items()}
"""burn's name of an element type -> TensorProto.DataType."""

NEWEST = onnx.defs.onnx_opset_version()

_STRINGS = {  # how schemas spell element types
    "float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}  # fmt: skip


class Refused(Exception):
    """An op cannot be written: why, and what may be done about it."""

    def __init__(self, reason: str, hint: str = "") -> None:
        self.reason, self.hint = reason, hint
        super().__init__(reason)


@dataclass(frozen=True)
class Schema:
    """ONNX's schema of an operator at an opset: the type variable or the only type of each input and output."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    variadic: bool
    allowed: Mapping[str, frozenset[str]]  # type variable -> element types
    least: int = 0  # inputs that a node has at least, empty names counted

    def input(self, index: int) -> str:
        return self.inputs[min(index, len(self.inputs) - 1)] if self.variadic else self.inputs[index]

    def output(self, index: int) -> str:
        return self.outputs[min(index, len(self.outputs) - 1)]

    @property
    def given(self) -> frozenset[str]:
        """Every element type that a result may have."""
        return frozenset().union(*(self.allowed.get(spelled) or _elements([spelled]) for spelled in self.outputs))


@cache
def schema(operator: str, opset: int) -> Schema | None:
    """None where the opset has no such operator."""
    try:
        found = onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return None
    allowed = {c.type_param_str: _elements(c.allowed_type_strs) for c in found.type_constraints}
    variadic = bool(found.inputs) and found.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    inputs, outputs = (tuple(p.type_str for p in side) for side in (found.inputs, found.outputs))
    return Schema(operator, inputs, outputs, variadic, allowed, found.min_input)


def _elements(strings: Sequence[str]) -> frozenset[str]:
    inner = [m.group(1) for s in strings if (m := re.fullmatch(r"tensor\((\w+)\)", s))]
    return frozenset(_STRINGS.get(t, t) for t in inner)


def _since(operator: str, opset: int, takes: Callable[[Schema], bool] = lambda schema: True) -> str:
    """A hint: the first opset after `opset` with the operator, for which `takes` is true; nothing where there is none."""
    for later in range(opset + 1, NEWEST + 1):
        found = schema(operator, later)
        if found is not None and takes(found):
            return f"opset {later} has it"
    return ""


@dataclass
class Scope:
    """The main graph, or a subgraph of a node in it."""

    nodes: list[NodeProto] = field(default_factory=list)
    made: set[str] = field(default_factory=set)  # names of the nodes' results
    known: dict[Any, list[str]] = field(default_factory=dict)  # what was computed by nodes that are shared
    guards: dict[str, str] = field(default_factory=dict)  # int64[1], 0 if a check holds and 1 if not -> the condition


class GraphWriter:
    """The graphs of one model."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.scopes: list[Scope] = [Scope()]
        self.depth = 0  # the scope that nodes go to
        self.source = ""  # the source node that nodes are written for
        self.dtypes: dict[str, str] = {}
        self.domains: set[str] = set()  # of foreign nodes
        self.initializers: dict[str, Weight] = {}
        self._literals: dict[Any, str] = {}
        self._numbers: dict[str, int] = {}
        self._taken: set[str] = set()

    # ---- names -------------------------------------------------------------------------------------------------------
    def reserve(self, name: str) -> None:
        self._taken.add(name)

    def fresh(self, base: str) -> str:
        name = base
        while name in self._taken:
            number = self._numbers[base] = self._numbers.get(base, 0) + 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    def _node_name(self, operator: str) -> str:
        last = self.source.rsplit("/", 1)[-1]
        if not self.source:
            return self.fresh(operator)
        return self.fresh(self.source if last.startswith(operator) else f"{self.source}/{operator}")

    # ---- constants ---------------------------------------------------------------------------------------------------
    def initializer(self, weight: Weight, hint: str) -> str:
        """A constant under a name of its own."""
        if weight.dtype not in CODES:
            raise Refused(f"ONNX has no element type {weight.dtype}")
        name = self.fresh(hint or "constant")
        self.initializers[name] = weight
        self.dtypes[name] = weight.dtype
        return name

    def literal(self, array: np.ndarray, hint: str = "const") -> str:
        """A small constant; equal ones are one."""
        weight = array_weight(np.asarray(array))
        key = (weight.dtype, weight.shape, np.asarray(weight.buffer).tobytes())
        if key not in self._literals:
            self._literals[key] = self.initializer(weight, hint)
        return self._literals[key]

    # ---- nodes -------------------------------------------------------------------------------------------------------
    @contextmanager
    def at(self, depth: int) -> Iterator[None]:
        """Nodes go to the scope `depth`, an outer one, meanwhile."""
        before, self.depth = self.depth, depth
        try:
            yield
        finally:
            self.depth = before

    @contextmanager
    def nested(self) -> Iterator[Scope]:
        """A subgraph."""
        scope = Scope()
        self.scopes.append(scope)
        with self.at(len(self.scopes) - 1):
            yield scope
        self.scopes.pop()

    def node(
        self, operator: str, *inputs: str | None, outputs: int = 1, to: str | None = None, shared: bool = False, **attrs
    ) -> Any:
        """Writes a node, between casts where it is not computed in its operands' type (kernels.py); returns the name of its
        result, or a list of them. An attribute that is None is left out.

        to: the results' element type where the schema does not give it (Cast). shared: a node that is in sight already and
        computes the same is taken instead. Raises Refused for what the opset does not have."""
        known = schema(operator, self.opset)
        if known is None:
            raise Refused(f"ONNX has no {operator} in opset {self.opset}", _since(operator, self.opset))
        given = list(inputs)
        bound = {known.input(i): self.dtypes[n] for i, n in enumerate(given) if n}
        variable = self._computed(known, bound)
        back: str | None = None
        carried: set[str] = set()
        if variable is not None and not self._takes(known, variable, bound[variable]):
            working = carrier(operator, bound[variable], known.allowed.get(variable))
            if working is not None:
                back = bound[variable]
                # operators with a variable for each of several floats (Attention) still want them alike
                carried = {
                    v for v, dtype in bound.items() if dtype == back and (v == variable or DTYPES[back].kind == "float")
                }
                bound.update(dict.fromkeys(carried, working))
                given = [self.cast(n, working) if n and known.input(i) in carried else n for i, n in enumerate(given)]
        for name, dtype in bound.items():
            if name in known.allowed and dtype not in known.allowed[name]:
                raise Refused(
                    f"{operator} of opset {self.opset} does not take {dtype}",
                    _since(operator, self.opset, lambda s, v=name, t=dtype: t in s.allowed.get(v, ())),
                )
        if to is not None and to not in known.given:
            raise Refused(
                f"{operator} of opset {self.opset} does not give {to}",
                _since(operator, self.opset, lambda s: to in s.given),
            )
        results = self._add(operator, given, outputs, attrs, shared, known.least)
        for i, name in enumerate(results):
            spelled = known.output(i)
            self.dtypes[name] = to or bound.get(spelled) or self._only(known, spelled)
            if back is not None and spelled in carried:
                results[i] = self.cast(name, back)
        return results[0] if outputs == 1 else results

    def guarded(self, name: str, scope: Scope) -> str:
        """`name`, from a node that fails where one of the scope's checks does not hold. ONNX has no assertion, but runtimes
        refuse an index that is out of range: `name` becomes the only element of an axis, which the number of failed checks
        indexes."""
        failed, *others = scope.guards
        for guard in others:
            failed = self.node("Add", failed, guard)
        axis = self.literal(np.zeros(1, np.int64), "size_0")
        index, whole = self.node("Squeeze", failed, axis), self.node("Unsqueeze", name, axis)
        source, self.source = self.source, f"check: {'; '.join(scope.guards.values())}"
        result = self.node("Gather", whole, index, axis=0)
        self.source = source
        return result

    def _takes(self, known: Schema, variable: str, dtype: str) -> bool:
        return computed_in(known.name, dtype) and dtype in known.allowed.get(variable, {dtype})

    def _computed(self, known: Schema, bound: Mapping[str, str]) -> str | None:
        """The type variable that the kernel table speaks of."""
        if known.name == "Cast":
            return None
        if known.name == "Where":
            return known.input(1)
        return known.input(0) if known.inputs and known.input(0) in bound else None

    def _only(self, known: Schema, spelled: str) -> str:
        """The type of a result that no operand determines; for control flow the caller sets it."""
        types = known.allowed.get(spelled) or _elements([spelled])
        assert len(types) == 1 or known.name in ("If", "Loop"), f"the type of {known.name}'s result is not said"
        return next(iter(types))

    def foreign(
        self, domain: str, operator: str, inputs: Sequence[str], dtypes: Sequence[str], attributes: Mapping[str, Any]
    ) -> list[str]:
        """Writes a node of another domain, whose version is 1; returns the names of its results, of these element types."""
        if wrong := [dtype for dtype in dtypes if dtype not in CODES]:
            raise Refused(f"ONNX has no element type {wrong[0]}")
        results = self._add(operator, list(inputs), len(dtypes), dict(attributes), False, len(inputs), domain)
        self.domains.add(domain)
        self.dtypes.update(zip(results, dtypes, strict=True))
        return results

    def _add(
        self,
        operator: str,
        inputs: list[str | None],
        outputs: int,
        attrs: dict,
        shared: bool,
        least: int,
        domain: str = "",
    ) -> list[str]:
        key = (operator, tuple(inputs), tuple(sorted((k, str(v)) for k, v in attrs.items())))
        if shared:
            for scope in self.scopes[: self.depth + 1]:
                if key in scope.known:
                    return list(scope.known[key])
        name = self._node_name(operator)
        results = [self.fresh(f"{name}_output_{i}") for i in range(outputs)]
        made = NodeProto(op_type=operator, name=name, domain=domain)
        while len(inputs) > least and not inputs[-1]:
            inputs.pop()
        made.input.extend(n or "" for n in inputs)
        made.output.extend(results)
        made.attribute.extend(_attribute(k, v) for k, v in sorted(attrs.items()) if v is not None)
        scope = self.scopes[self.depth]
        scope.nodes.append(made)
        scope.made.update(results)
        if shared:
            scope.known[key] = list(results)
        return results

    def cast(self, name: str, dtype: str, saturate: bool = True) -> str:
        """The value as another element type; itself when it has it."""
        if self.dtypes[name] == dtype:
            return name
        if dtype not in CODES:
            raise Refused(f"ONNX has no element type {dtype}")
        code = CODES[dtype]
        return self.node("Cast", name, to=dtype, shared=True, to_=code, saturate=None if saturate else 0)

    def value_info(self, name: str, type_: TensorType) -> onnx.ValueInfoProto:
        """A typed name; a symbolic size is written as an expression."""
        if type_.dtype not in CODES:
            raise Refused(f"ONNX has no element type {type_.dtype}")
        return helper.make_tensor_value_info(name, CODES[type_.dtype], [_dim(d) for d in type_.shape])


def _dim(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _attribute(name: str, value: Any) -> AttributeProto:
    """`to_` is the attribute `to`, whose name the argument `to` has taken."""
    plain = name.rstrip("_")
    if isinstance(value, (tuple, list)) and not value:
        return helper.make_attribute(plain, [], attr_type=AttributeProto.INTS)
    if isinstance(value, bool):
        value = int(value)
    return helper.make_attribute(plain, value)
