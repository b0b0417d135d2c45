"""A torch graph becomes a program: every call, in order, through one table of builders. Enter at `Importer`.

The build continues after a problem. A call that cannot be built leaves its results `FAILED`, and calls that depend on those are
skipped. At the end one ModelError lists all problems. An operator without a builder is listed once, with the source lines that
use it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from burn.dialect import ops
from burn.dialect.compose import dim_value, number, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.errors import BurnError, Problem
from burn.importers.core import FAILED, SHOWN, Problems, Skipped
from burn.importers.torch.custom import builder as custom_builder
from burn.importers.torch.dtypes import dtype_name, to_weight
from burn.importers.torch.node import BUILDERS, Node, module_path, source_line, source_location
from burn.importers.torch.refusals import REASONS
from burn.importers.torch.sizes import Sizes, Unrepresentable
from burn.tensors.tracer import Tracer, tracing

SUMMARY = "the PyTorch program cannot be imported"

NO_EFFECT = {
    # torch's assumptions about sizes select the graph that it traced; the inputs' ranges are in the signature.
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}

MISDESCRIBED = {"aten.bincount.default", "aten.unique_consecutive.default", "aten.linalg_vector_norm.default"}
"""Operators whose fake results have a wrong type in some releases of torch (2.11): int64 for sums of weights, float32 for the
runs' numbers, an axis that a norm removes. A result that nothing computes with has the type that eager mode gives it."""

UPDATES = {"aten.copy_.default"}
"""Writes to inputs at the end of a graph of AOTAutograd's. The caller of `run` makes outputs of the new values."""


class Importer:
    """The state of one import: a graph's placeholders have been given values, `run` builds the rest."""

    def __init__(self, inputs: Sequence[tuple[str, TensorType]], sizes: Sizes) -> None:
        self.tracer = Tracer(inputs)
        self.sizes = sizes
        self.problems = Problems(SUMMARY)
        self._missing: dict[str, list[fx.Node]] = {}
        self._key: ir.Value | None = None

    @property
    def program(self) -> Program:
        return self.tracer.program

    # ---- types -------------------------------------------------------------------------------------------------------
    def tensor_dtype(self, fake: torch.Tensor) -> str:
        return dtype_name(fake.dtype)

    def tensor_type(self, fake: torch.Tensor) -> TensorType:
        """torch's type in burn's terms. Raises Unrepresentable."""
        return TensorType(dtype_name(fake.dtype), tuple(self.sizes.dim(d) for d in fake.shape))

    # ---- graphs ------------------------------------------------------------------------------------------------------
    def finish(self, outputs: Sequence[tuple[str, Any]]) -> Program:
        """Ends the program. Raises ModelError with every problem that was found."""
        self.raise_problems()
        return self.program.finish(outputs)

    def raise_problems(self) -> None:
        for op, nodes in self._missing.items():
            sources = dict.fromkeys(": ".join(filter(None, (module_path(n), source_line(n)))) or n.name for n in nodes)
            shown = ", ".join(list(sources)[:SHOWN]) + (f" and {len(sources) - SHOWN} more" * (len(sources) > SHOWN))
            times = f"{len(nodes)} time{'s' * (len(nodes) > 1)}"
            hint = "write it in other operators, or bind a custom op of this name: burn.custom_op(..).torch()"
            hint = REASONS.get(op.split(".")[1] if "." in op else op, hint)
            self.problems.add(Problem(f"is not supported; used {times} in {shown}", op=op, hint=hint))
        self._missing.clear()
        self.problems.raise_any()

    def run(self, graph: fx.GraphModule, placeholders: Sequence[Any], further: Sequence[fx.Node] = ()) -> list[Any]:
        """Builds a graph at the insertion point; returns what it outputs, then what `further` calls give, `FAILED` for what could
        not be built."""
        given = iter(placeholders)
        values: dict[fx.Node, Any] = {}
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr":
                values[node] = self._attribute(graph, node)
            elif node.op == "call_function":
                try:
                    values[node] = self._call(node, values)
                except Skipped:
                    values[node] = FAILED
            elif node.op == "output":
                outputs = (*_flat(node.args[0]), *further)
                return [values[a] if isinstance(a, fx.Node) else a for a in outputs]
            else:
                self.problems.add(Problem(f"a graph with {node.op} nodes; export it first", node=node.name))
                values[node] = FAILED
        return []

    def _attribute(self, graph: fx.GraphModule, node: fx.Node) -> Any:
        value: Any = graph
        for part in str(node.target).split("."):
            value = getattr(value, part)
        return self.constant(value, str(node.target)) if isinstance(value, torch.Tensor) else value

    def constant(self, tensor: torch.Tensor, name: str) -> Any:
        """A parameter, buffer or lifted constant; the program reads the tensor's own memory, or a copy of one on
        a GPU."""
        if tensor.device.type == "cuda":
            tensor = tensor.cpu()
        try:
            return self.tracer.constant(tensor, to_weight(tensor), name)
        except BurnError as error:
            self.problems.found += [Problem(p.message, node=name) for p in error.problems]
            return FAILED

    def random_key(self) -> ir.Value:
        """A key of its own for each operator that draws, but inside of `drawing`."""
        return self.program.random_key() if self._key is None else self._key

    @contextmanager
    def drawing(self, key: ir.Value) -> Iterator[None]:
        """Uses this key for all random draws inside."""
        before, self._key = self._key, key
        try:
            yield
        finally:
            self._key = before

    # ---- calls -------------------------------------------------------------------------------------------------------
    def _call(self, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
        if node.target is operator.getitem:
            source, index = node.args
            return _checked(values[source])[index]  # type: ignore[index]
        op = op_name(node.target)
        meta = node.meta.get("val")
        if op in UPDATES:
            return values[node.args[0]]  # type: ignore[index]
        if op in NO_EFFECT:
            return None
        builder = BUILDERS.get(op) or custom_builder(op)
        here = Node(node, self, op)
        if builder is None and isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float)):
            return self._number(here, meta)
        if builder is None:
            self._missing.setdefault(op, []).append(node)
            raise Skipped
        positional, by_name = self.bound(node)
        arguments = [_filled(a, values) for a in positional]
        keywords = {name: _filled(a, values) for name, a in by_name.items()}
        with self.problems.building(here, (Unrepresentable,)), self._location(here):
            arguments = _tensors_of_numbers(here, arguments)
            return self._fitted(here, builder(here, *arguments, **keywords))

    def _number(self, node: Node, meta: Any) -> Any:
        """The result of a call that computes with sizes; torch gives it as one expression."""
        if isinstance(meta, (int, float)):
            return meta
        try:
            with self._location(node):
                return self.sizes.dim(meta) if isinstance(meta, torch.SymInt) else self.sizes.value(meta)
        except Unrepresentable as error:
            self.problems.add(node.problem(str(error)))
            raise Skipped from None

    def bound(self, node: fx.Node) -> tuple[list[Any], dict[str, Any]]:
        """A call's arguments as the operator's schema has them, defaults filled in: by position, and by name only."""
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            return list(node.args), dict(node.kwargs)
        positional: list[Any] = []
        by_name: dict[str, Any] = {}
        for position, argument in enumerate(schema.arguments):
            value = node.args[position] if position < len(node.args) else argument.default_value
            value = node.kwargs.get(argument.name, value)
            if argument.kwarg_only:
                by_name[argument.name] = value
            else:
                positional.append(value)
        return positional, by_name

    def _location(self, node: Node) -> ir.Location:
        """The module and the operator, with the line of Python inside."""
        path = ".".join(filter(None, (node.name, node.op.split(".")[1] if "." in node.op else node.op)))
        file, line = source_location(node.fx)
        with context():
            inner = ir.Location.file(file.rsplit("/", 1)[-1], line, 0) if file else ir.Location.unknown()
            return ir.Location.name(path, inner)

    def _fitted(self, node: Node, result: Any) -> Any:
        """Holds a builder to what torch says of the result: element type, rank, sizes."""
        if isinstance(result, (list, tuple)):
            metas = node.meta if isinstance(node.meta, (list, tuple)) else [node.meta] * len(result)
            return [self._fit(node, value, meta) for value, meta in zip(result, metas, strict=False)]
        return self._fit(node, result, node.meta)

    def _fit(self, node: Node, value: Any, meta: Any) -> Any:
        if not isinstance(value, ir.Value) or not isinstance(meta, torch.Tensor):
            return value
        have, want = type_of(value), self.tensor_type(meta)
        if have == want:
            return value
        differ = any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(have.shape, want.shape, strict=False)
        )
        if have.dtype != want.dtype or have.rank != want.rank or differ:
            if node.op in MISDESCRIBED and _only_returned(node.fx):
                return value
            node.fail(f"was built as {have}, torch gives {want}")
        return reshape(value, want.shape)


def _only_returned(node: fx.Node) -> bool:
    """True if nothing computes with a call's results: only their sizes are read."""
    reads = [u for user in node.users for u in (user.users if user.target is operator.getitem else (user,))]
    return all(user.op == "output" or user.target is torch.ops.aten.sym_size.int for user in reads)


def op_name(target: Any) -> str:
    """aten.add.Tensor; cond for a higher-order operator."""
    return str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))


def _flat(outputs: Any) -> list[Any]:
    if isinstance(outputs, (list, tuple)):
        return [leaf for o in outputs for leaf in _flat(o)]
    return [outputs]


def _checked(value: Any) -> Any:
    if value is FAILED:
        raise Skipped
    return value


def _filled(argument: Any, values: Mapping[fx.Node, Any]) -> Any:
    """An argument with the nodes in it replaced by their values."""
    if isinstance(argument, fx.Node):
        return _checked(values[argument])
    if isinstance(argument, (list, tuple)):
        return [_filled(a, values) for a in argument]
    return argument


def _tensors_of_numbers(node: Node, arguments: list[Any]) -> list[Any]:
    """The arguments of a call without tensors, with scalar constants for the numbers that its schema has as tensors.

    torch writes tensors that it made of Python's numbers (under `torch.vmap`, in gradients of complex numbers) as numbers. Beside
    a tensor such a number has no element type of its own, and builders take it as it is."""
    schema = getattr(node.fx.target, "_schema", None)
    if schema is None or any(isinstance(a, ir.Value) for a in arguments):
        return arguments
    filled = list(arguments)
    for i, (value, argument) in enumerate(zip(arguments, schema.arguments, strict=False)):
        if isinstance(value, (bool, int, float, complex)) and argument.type.isSubtypeOf(torch._C.TensorType.get()):
            filled[i] = number(value, dtype_name(_dtype_of_number(value, node.meta)))
    return filled


def _dtype_of_number(value: complex, result: Any) -> torch.dtype:
    """The result's element type if both are floats or both are complex, so that no digits are lost, otherwise torch's default."""
    own = torch.tensor(value).dtype
    if isinstance(result, torch.Tensor):
        of_result = result.dtype
        if (own.is_floating_point and of_result.is_floating_point) or (own.is_complex and of_result.is_complex):
            return of_result
    return own


def as_output(value: Any) -> ir.Value:
    """A graph's output as a tensor: sizes and numbers are scalars."""
    if isinstance(value, ir.Value):
        return value
    if isinstance(value, bool):
        return number(value, "bool")
    if isinstance(value, float):
        return number(value, "float64")
    return dim_value(value)


def read_size(value: ir.Value, tracer: Tracer, hint: str) -> Dim:
    """A size that is an input of its own, a scalar."""
    name = tracer.fresh(hint)
    ops.read_dim(value, symbol=name)
    return tracer.new_size(name)


__all__ = ["NO_EFFECT", "SUMMARY", "Importer", "as_output", "op_name", "read_size", "tracing"]
