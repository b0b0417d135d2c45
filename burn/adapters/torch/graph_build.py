"""From a functional graph of AOTAutograd's to a program. Enter at `Build`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from torch.utils._sympy.singleton_int import SingletonInt

from burn.adapters.torch import gpu_memory
from burn.adapters.torch.gpu import Input, Result
from burn.adapters.torch.graph_outputs import (
    InputPart,
    InputView,
    Made,
    Output,
    Passed,
    SavedBlock,
    View,
    layout_of,
    meta_of,
)
from burn.adapters.torch.input_views import assigned
from burn.adapters.torch.layouts import ELEMENTS, LAYOUT_ONLY, memory_order, outputs_of, shared
from burn.adapters.torch.saved import SAVED, Block
from burn.dialect import ops
from burn.dialect.compose import reshape, transpose
from burn.dialect.dims import Dim, symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.errors import ModelError, Problem
from burn.importers.torch.build import SUMMARY, Importer, read_size
from burn.importers.torch.dtypes import dtype_name
from burn.importers.torch.sizes import Sizes, Unrepresentable, expression_of
from burn.tensors.tracer import tracing


@dataclass(frozen=True)
class Aliases:
    """The outputs of a forward graph that torch or burn makes of an input. updates: see `layouts.renewed`. placed: see
    `input_views.layouts_of_views`. parts: see `input_views.parts_of_inputs`."""

    updates: Mapping[int, int] = field(default_factory=dict)
    placed: Mapping[int, torch.Tensor] = field(default_factory=dict)
    parts: Mapping[int, tuple[int, torch.Tensor]] = field(default_factory=dict)


NO_ALIASES = Aliases()


class Build:
    """From a functional graph to a program.

    `positions`: the graph's inputs that the program takes, in order, and the order of their axes in memory if it is another than
    the rows'. `results`: how each output of the program is allocated. `firsts`: by output, the first that is the same tensor:
    what a graph returns twice is one object, as in eager mode. `assigned`: the graph's inputs, by number, that it writes itself,
    and their new values. `into`: by output of the program, the graph's input that it is written to. `read`, `written`: blocks of
    saved tensors. `given`: how many inputs the graph has for torch; further ones are members of a block."""

    def __init__(
        self,
        graph: fx.GraphModule,
        constants: Mapping[int, torch.Tensor],
        required: Mapping[int, str],
        aliases: Aliases | None,
        device: torch.device | None = None,
        read: Block | None = None,
        written: Block | None = None,
    ) -> None:
        self.device = device
        self.read = read
        self.written = written
        self.graph = graph
        self.constants = constants
        self.required = required
        self.aliases = aliases
        self.placed = aliases.placed if aliases else {}
        self.parts = aliases.parts if aliases else {}
        self.sizes = Sizes()
        self.placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        self.given = len(self.placeholders) if read is None else read.first
        self.unread = {i for i, n in enumerate(self.placeholders) if any(_orders(user, n) for user in n.users)}
        self.unread |= {read.index} if read is not None else set()
        self.positions: dict[int, tuple[int, ...] | None] = {}
        self.results: list[Result] = []
        self.outputs: list[Any] = []
        self.owners: list[Made] = []
        self.firsts: list[int] = []
        self.assigned = assigned(graph)
        self.into: dict[int, int] = {}

    def run(self) -> Program:
        inputs = self._inputs()
        self.positions = {i: self._order(i) for i in inputs}
        importer = Importer(list(inputs.values()), self.sizes)
        values = dict(zip(inputs, importer.program.inputs, strict=True))
        returned = outputs_of(self.graph)
        self.firsts = self._firsts(returned)
        kept = {i: n for i, n in enumerate(returned) if isinstance(n, fx.Node) and self.required.get(i) == ELEMENTS}
        apart = {**self.placed, **self.parts}
        sharing = shared({i: n for i, n in kept.items() if i not in apart}) if self.aliases is not None else {}
        of_inputs = {i: self.placeholders.index(n) for i, n in sharing.items() if n.op == "placeholder"}
        owners = list(dict.fromkeys(n for n in sharing.values() if n.op != "placeholder"))
        with tracing(importer.tracer):
            self._read_sizes(importer, values)
            arguments = [self._argument(importer, i, values) for i in range(len(self.placeholders))]
            further = [*owners, *self.assigned.values()]
            results = importer.run(self.graph, arguments, further)
            importer.raise_problems()
            made: dict[int, Output] = {}  # what the program computes: outputs by number, then owners
            passed = self._passed(returned)
            for i, (node, value) in enumerate(
                zip((*returned, *owners), results[: len(returned) + len(owners)], strict=True)
            ):
                layout_only = (
                    i < len(returned)
                    and self.required.get(i) == LAYOUT_ONLY
                    and isinstance(meta_of(node), torch.Tensor)
                )
                if (
                    not layout_only
                    and i not in passed
                    and i not in sharing
                    and i not in self.parts
                    and not _is_constant(value, meta_of(node))
                ):
                    made[i] = Output.of(value, self._lying(i, node), i in kept or i >= len(returned))
            updates = results[len(returned) + len(owners) :]
            for i, (index, value) in enumerate(zip(self.assigned, updates, strict=True), len(returned) + len(owners)):
                self.into[len(made)] = index
                made[i] = Output.of(value, meta_of(self.placeholders[index]), True, self._order(index))
        saved = dict(enumerate(self.written.offsets, self.written.first)) if self.written is not None else {}
        sources = [*map(meta_of, self.placeholders[: self.given]), *(m.source for m in made.values())]
        placed = {i: self._on_device(m.placed(number, sources), m.meta) for number, (i, m) in enumerate(made.items())}
        self.results = [m.result(placed[i].layout, saved.get(i)) for i, m in made.items()]
        for i, node in enumerate(returned):
            if i in saved:
                continue
            if self.written is not None and i == self.written.index:
                self.outputs.append(SavedBlock())
            elif i in passed:
                self.outputs.append(Passed(passed[i]))
            elif i in placed:
                self.outputs.append(placed[i])
            elif i in self.parts:
                index, meta = self.parts[i]
                self.outputs.append(InputPart(index, layout_of(meta, sources, i)))
            elif i in of_inputs:
                start = meta_of(self.placeholders[of_inputs[i]]).storage_offset()
                self.outputs.append(InputView(of_inputs[i], layout_of(meta_of(node), sources, i, start)))
            elif i in sharing:
                self.outputs.append(View(owners.index(sharing[i]), layout_of(meta_of(node), sources, i)))
            else:
                layout_only = self.required.get(i) == LAYOUT_ONLY and isinstance(meta_of(node), torch.Tensor)
                meta = self.placed.get(i, meta_of(node))
                self.outputs.append(layout_of(meta, sources, i) if layout_only else results[i])
        self.owners = [placed[len(returned) + i] for i in range(len(owners))]
        program = importer.finish([(f"output_{i}", m.value) for i, m in made.items()])
        numbers = {index: number for number, index in enumerate(self.positions)}
        renewed = {output: numbers[index] for output, index in self.into.items() if index in numbers}
        program.renews, program.given_up = renewed, tuple(renewed.values())
        return program

    def _lying(self, output: int, node: Any) -> Any:
        """torch's view of an output in the memory that it is to have."""
        if output in self.placed or output in self.required or not isinstance(node, fx.Node):
            return self.placed.get(output, meta_of(node))
        return node.meta.get(SAVED, meta_of(node))

    def _passed(self, returned: Sequence[Any]) -> dict[int, int]:
        """Output -> the input that it is, for what is saved for the backward pass."""
        if self.aliases is None:
            return {}
        free = (i for i in range(len(returned)) if i not in self.required and i not in self.aliases.updates)
        return {i: self.placeholders.index(returned[i]) for i in free if returned[i] in self.placeholders}

    def _on_device(self, made: Made, meta: Any) -> Made:
        """An output where torch takes it to be."""
        if self.device is None or not isinstance(meta, torch.Tensor) or gpu_memory.where(meta) == self.device:
            return made
        return replace(made, device=gpu_memory.where(meta))

    def inputs(self, device: torch.device | None) -> list[Input]:
        """The program's inputs. device: the program's GPU."""
        found = []
        offsets = dict(enumerate(self.read.offsets, self.read.first)) if self.read is not None else {}
        for i, order in self.positions.items():
            meta = self.placeholders[i].meta["val"]
            if i in offsets:
                assert self.read is not None
                dtype, shape = dtype_name(meta.dtype), tuple(meta.shape)
                found.append(Input(self.read.index, dtype, False, False, False, order, shape, offsets[i]))
                continue
            if not isinstance(meta, torch.Tensor):
                dtype = (
                    "int64"
                    if isinstance(meta, torch.SymInt)
                    else "float64"
                    if isinstance(meta, torch.SymFloat)
                    else "bool"
                )
                found.append(Input(i, dtype, device is not None, True, False, None, ()))
                continue
            varies = any(isinstance(n, torch.SymInt) for n in meta.shape)
            from_host = device is not None and gpu_memory.where(meta) != device
            shape = None if varies else tuple(meta.shape)
            found.append(Input(i, dtype_name(meta.dtype.to_real()), from_host, False, meta.is_complex(), order, shape))
        return found

    def _order(self, index: int) -> tuple[int, ...] | None:
        """The axes of an input as they lie in memory, if they fill it in another order than the rows'."""
        meta = self.placeholders[index].meta["val"]
        if not isinstance(meta, torch.Tensor) or meta.dim() < 2 or meta.is_neg():
            return None
        order = memory_order(meta, anywhere=True)
        return None if order is None or order == tuple(range(meta.dim())) else order

    def _firsts(self, returned: Sequence[Any]) -> list[int]:
        """Maps every output to the first that is the same object. An output with the requirement LAYOUT_ONLY has no elements. An
        output that is kept for the backward pass has them, though both are results of one call."""
        found: dict[Any, int] = {}
        firsts = []
        for i, node in enumerate(returned):
            same = self.aliases is not None and _is_tensor(node) and self.required.get(i) != LAYOUT_ONLY
            firsts.append(found.setdefault(node, i) if same else i)
        return firsts

    def _inputs(self) -> dict[int, tuple[str, TensorType]]:
        problems: list[Problem] = []
        metas = [n.meta["val"] for n in self.placeholders]
        for value in metas:
            for size in value.shape if isinstance(value, torch.Tensor) else ():
                name = re.sub(r"\W", "_", str(expression_of(size)))
                if isinstance(size, torch.SymInt) and name.isidentifier():
                    self.sizes.bind(size, symbol(name))
        inputs: dict[int, tuple[str, TensorType]] = {}
        for i, (node, value) in enumerate(zip(self.placeholders, metas, strict=True)):
            name = f"input_{i}_{re.sub(r'[^0-9a-zA-Z]+', '_', node.name)}"
            try:
                if i in self.unread:
                    continue
                if isinstance(value, torch.Tensor) and i not in self.constants:
                    shape = tuple(self._size(d, f"input_{i}_{axis}") for axis, d in enumerate(value.shape))
                    order = self._order(i)
                    shape = shape if order is None else tuple(shape[axis] for axis in order)
                    pair = (2,) * value.is_complex()
                    inputs[i] = (name, TensorType(dtype_name(value.dtype.to_real()), (*shape, *pair)))
                elif isinstance(value, torch.SymInt) and _counts_rows(value):
                    hint = "pad them: torch.nested.to_padded_tensor"
                    problems.append(Problem("nested tensors (torch.jagged) are not supported", hint=hint))
                elif isinstance(value, torch.SymInt) and not self._is_known(value):
                    inputs[i] = (name, TensorType("int64", ()))
                elif isinstance(value, (torch.SymFloat, torch.SymBool)):
                    inputs[i] = (name, TensorType("float64" if isinstance(value, torch.SymFloat) else "bool", ()))
            except Unrepresentable as error:
                problems.append(Problem(f"input '{node.name}': {error}"))
        if problems:
            raise ModelError(SUMMARY, dict.fromkeys(problems))
        return inputs

    def _is_known(self, value: torch.SymInt) -> bool:
        """True if a number is another input's size, or one that torch fixed while tracing (it may be negative)."""
        expression = expression_of(value)
        return expression.is_Integer or expression in self.sizes.symbols

    def _size(self, size: Any, name: str) -> Dim:
        """A size of an input. One that is reckoned from numbers that are inputs themselves is any size until those are
        known, see `_argument`."""
        return self.sizes.dim(size) if self.sizes.has(size) else symbol(name)

    def _read_sizes(self, importer: Importer, values: Mapping[int, Any]) -> None:
        """Binds the sizes that are inputs of their own."""
        for i, node in enumerate(self.placeholders):
            if i in values and isinstance(node.meta["val"], torch.SymInt):
                self.sizes.bind(node.meta["val"], read_size(values[i], importer.tracer, "size"))

    def _argument(self, importer: Importer, index: int, values: Mapping[int, Any]) -> Any:
        node = self.placeholders[index]
        meta = node.meta["val"]
        if index in self.unread:
            return None
        if isinstance(meta, torch.SymInt):
            return self.sizes.dim(meta)
        if index in self.constants:
            return importer.constant(self.constants[index], node.name)
        if index not in values or not isinstance(meta, torch.Tensor):
            return values.get(index, meta)
        order = self._order(index)
        sizes, pair = tuple(map(self.sizes.dim, meta.shape)), (2,) * meta.is_complex()
        lying = sizes if order is None else tuple(sizes[axis] for axis in order)
        value = reshape(values[index], (*lying, *pair))
        if order is not None:
            back = sorted(range(len(order)), key=order.__getitem__)
            value = transpose(value, (*back, len(order)) if pair else tuple(back))
        return ops.view_as_complex(value) if meta.is_complex() else value


def _counts_rows(value: torch.SymInt) -> bool:
    """True for the size of a nested tensor's ragged axis, which is no number."""
    environment = value.node.shape_env
    return environment is not None and isinstance(environment.backed_var_to_val.get(expression_of(value)), SingletonInt)


def _is_tensor(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(meta_of(node), torch.Tensor)


def _is_constant(value: Any, meta: Any) -> bool:
    return value is None or (isinstance(value, (int, float, bool)) and not isinstance(meta, torch.Tensor))


def _orders(call: fx.Node, token: fx.Node) -> bool:
    """True for an input that only orders a call with side effects: torch passes None."""
    return call.target is torch.ops.higher_order.with_effects and call.args[0] is token
