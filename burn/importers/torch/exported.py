"""torch.export's programs become burn's. Enter at `import_exported` and `ImportedProgram`.

Parameters, buffers and lifted constants become constants over torch's own memory. A buffer (or an input) that the program
changes is an input instead, and its new value an output, which the caller writes back: see `Mutation`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, SymBoolArgument, SymFloatArgument, SymIntArgument
from torch.utils import _pytree as pytree

from burn.dialect.compose import check_size
from burn.dialect.dims import Dim, decide, exact_div, symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.errors import ModelError, Problem
from burn.importers.core import FAILED
from burn.importers.torch.build import SUMMARY, Importer, as_output, read_size
from burn.importers.torch.composites import found_once
from burn.importers.torch.decompositions import for_export
from burn.importers.torch.dtypes import dtype_name
from burn.importers.torch.guards import SAYS, add_checks, take_sizes_for_general
from burn.importers.torch.lstm_states import sized_states
from burn.importers.torch.noise import quiet
from burn.importers.torch.paths import output_names, plain, unique
from burn.importers.torch.questions import Answer
from burn.importers.torch.sizes import Sizes, Unrepresentable, expression_of, linear
from burn.tensors.tracer import tracing

NUMBERS = (SymIntArgument, SymFloatArgument, SymBoolArgument)


@dataclass(frozen=True)
class Mutation:
    """The program's output `output` is the new value of a buffer (`buffer`) or of the user's input of that name."""

    output: str
    name: str
    buffer: bool


@dataclass(frozen=True)
class ImportedProgram:
    """A program, and its calling convention.

    `user_inputs`: for every leaf of the flattened arguments, the program's input. None for a leaf without an input (a number
    that it was exported with). `buffers`: inputs for buffers that the program changes, or for all that the module's state
    holds -> the name there. `mutations`: outputs to write back, which come first. `user_outputs`: for every
    leaf of the module's results the output's name, or the constant itself in a 1-tuple. `numbers`: outputs that the module
    returns as Python numbers, such as sizes."""

    program: Program
    user_inputs: tuple[str | None, ...]
    constants: tuple[Any, ...]
    buffers: Mapping[str, str]
    mutations: tuple[Mutation, ...]
    user_outputs: tuple[str | tuple[Any], ...]
    numbers: frozenset[str] = frozenset()


def import_exported(
    exported: ExportedProgram, *, names: Mapping[str, str] | None = None, dims: Mapping[str, int] | None = None
) -> Program:
    """A program that torch.export made, as one of burn's.

    names: what torch's size symbols ("s77") are called; by default the input and the axis, x_0. dims: values for named
    sizes, the others stay dynamic. Inputs are called as the module's `forward` calls them, outputs
    by their keys. Raises ModelError that lists everything that cannot be imported."""
    return import_program(exported, names=names, dims=dims).program


def import_program(
    exported: ExportedProgram,
    *,
    names: Mapping[str, str] | None = None,
    dims: Mapping[str, int] | None = None,
    answers: Sequence[Answer] = (),
    opens: bool = False,
) -> ImportedProgram:
    """`import_exported`, with the calling convention. `answers`: decisions on sizes that the module made during export. The
    program checks at run time that they would be the same. `opens`: parameters and buffers that the
    module's state holds are inputs, all of them among `buffers`."""
    return _Import(decomposed(exported), exported, names or {}, dims or {}, answers, opens).run()


def decomposed(exported: ExportedProgram) -> ExportedProgram:
    """The program in the operators that the import starts from, its inputs and outputs plain sequences."""
    take_sizes_for_general(exported)
    try:
        with quiet(), sized_states(), found_once():
            return _flat(exported).run_decompositions(for_export())
    except Exception as error:  # torch traces the program anew, and meets whatever its own operators refuse
        hint = "this is torch's own refusal: see ExportedProgram.run_decompositions"
        raise ModelError(SUMMARY, [Problem(str(error).strip() or type(error).__name__, hint=hint)]) from error


def _flat(exported: ExportedProgram) -> ExportedProgram:
    """The program with its inputs and outputs as plain sequences.

    torch retraces the program to decompose operators. Containers that compute in their constructors (transformers' caches
    concatenate tensors) would add these ops to it a second time."""
    flat = copy.copy(exported)
    entry = flat.module_call_graph[0]
    signature = copy.copy(entry.signature)
    inputs, outputs = exported.call_spec.in_spec, exported.call_spec.out_spec
    if signature is None or inputs is None or outputs is None:
        return exported
    signature.in_spec = pytree.tree_structure((tuple(range(inputs.num_leaves)), {}))
    signature.out_spec = pytree.tree_structure(tuple(range(outputs.num_leaves)))
    signature.forward_arg_names = None
    flat._module_call_graph = [replace(entry, signature=signature), *flat.module_call_graph[1:]]
    if exported.example_inputs is not None:
        flat._example_inputs = (tuple(pytree.tree_leaves(exported.example_inputs)), {})
    flat._guards_code = []  # they name the inputs as they were; they are checked by the program itself, see guards.py
    return flat


class _Import:
    def __init__(
        self,
        exported: ExportedProgram,
        original: ExportedProgram,
        names: Mapping[str, str],
        dims: Mapping[str, int],
        answers: Sequence[Answer],
        opens: bool,
    ) -> None:
        self.exported = exported
        self.answers = answers
        self.original = original
        specs = original.graph_signature.input_specs
        self.input_names = iter([s.arg.name for s in specs if s.kind is InputKind.USER_INPUT])
        self.signature = exported.graph_signature
        self.sizes = Sizes()
        self.names = dict(names)
        self.dims = dict(dims)
        self.called: set[str] = set()
        self.parts: list[Dim] = []
        """Sizes that are an axis less something: each run checks that they are not negative."""
        self.placeholders = [n for n in exported.graph.nodes if n.op == "placeholder"]
        self.opened = {
            *self.signature.buffers_to_mutate.values(),
            *getattr(self.signature, "parameters_to_mutate", {}).values(),
            *(exported.state_dict if opens else ()),
        }

    def run(self) -> ImportedProgram:
        inputs = self._inputs()
        importer = Importer(list(inputs.values()), self.sizes)
        values = dict(zip(inputs, importer.program.inputs, strict=True))
        with tracing(importer.tracer):
            arguments = [self._argument(importer, i, values) for i in range(len(self.placeholders))]
            for part in self.parts:
                check_size(part, ">=", 0, SAYS)
            add_checks(self.exported, self.original, self.sizes, self.answers)
            results = importer.run(self.exported.graph_module, arguments)
            importer.raise_problems()
            called = {self.placeholders[i].name: name for i, (name, _) in inputs.items()}
            outputs, mutations, user, numbers = self._outputs(results, called)
        program = importer.finish(outputs)
        specs = list(enumerate(self.signature.input_specs))
        users = [(i, s) for i, s in specs if s.kind is InputKind.USER_INPUT]
        buffers = {inputs[i][0]: str(s.target) for i, s in specs if i in inputs and s.kind is not InputKind.USER_INPUT}
        return ImportedProgram(
            program,
            tuple(inputs[i][0] if i in inputs else None for i, _ in users),
            tuple(getattr(s.arg, "value", None) for _, s in users),
            buffers,
            tuple(mutations),
            tuple(user),
            frozenset(numbers),
        )

    # ---- inputs ------------------------------------------------------------------------------------------------------
    def _inputs(self) -> dict[int, tuple[str, TensorType]]:
        """Placeholder -> input: the tensors that the user passes, buffers that change, sizes that no shape gives."""
        problems: list[Problem] = []
        tensors: dict[int, tuple[str, torch.Tensor]] = {}
        symints: list[tuple[int, str, Any]] = []
        taken: set[str] = set()
        for i, (spec, node) in enumerate(zip(self.signature.input_specs, self.placeholders, strict=True)):
            value = node.meta.get("val")
            user = spec.kind is InputKind.USER_INPUT
            name = next(self.input_names) if user else str(spec.target)
            if spec.kind is InputKind.TOKEN:  # it orders checks, and has no elements
                continue
            if spec.kind is InputKind.CUSTOM_OBJ:
                problems.append(Problem(f"input '{name}' is a {spec.kind.name}, which is not supported"))
            elif isinstance(value, torch.Tensor) and (user or spec.target in self.opened):
                tensors[i] = (unique(name, taken), value)
            elif isinstance(value, torch.SymInt):
                symints.append((i, unique(name, taken), value))
            elif isinstance(value, (torch.SymFloat, torch.SymBool)):
                problems.append(Problem(f"input '{name}' is a number that varies; pass a tensor of no axes"))
        unnamed = self._name_sizes(dict(tensors.values()))
        problems += unnamed
        if unused := sorted(self.dims.keys() - self.called):
            hint = f"the sizes are called {', '.join(sorted(self.called)) or 'nothing: all are fixed'}"
            problems.append(Problem(f"sizes were given for {', '.join(unused)}, which no input has", hint=hint))
        inputs: dict[int, tuple[str, TensorType]] = {}
        for i, (name, value) in tensors.items() if not unnamed else ():
            try:
                inputs[i] = (name, self._type(value))
            except Unrepresentable as error:
                problems.append(Problem(f"input '{name}': {error}"))
        for i, name, value in symints:
            if expression_of(value) not in self.sizes.symbols:
                inputs[i] = (name, TensorType("int64", ()))
        if problems:
            raise ModelError(SUMMARY, problems)
        return dict(sorted(inputs.items()))

    def _name_sizes(self, tensors: Mapping[str, torch.Tensor]) -> list[Problem]:
        """Binds torch's symbols to named sizes. An axis may be a symbol, or linear in one: `4*s6` of `4*Dim("k")`."""
        problems: list[Problem] = []
        derived: list[tuple[str, str, torch.SymInt]] = []
        for input_name, value in tensors.items():
            for axis, size in enumerate(value.shape):
                expression = expression_of(size)
                if not isinstance(size, torch.SymInt) or expression in self.sizes.symbols:
                    continue
                name = self.names.get(str(expression), f"{input_name}_{axis}")
                if not isinstance(expression, sympy.Symbol):
                    derived.append((input_name, name, size))
                    continue
                self.called.add(name)
                self.sizes.bind(size, self.dims.get(name, symbol(name)))
        for input_name, name, size in derived:
            expression = expression_of(size)
            try:
                if unknown := sorted(expression.free_symbols - self.sizes.symbols.keys(), key=str):
                    self._bind_part(name, expression, unknown)
                self.sizes.bind(size, self.sizes.dim(expression))
            except Unrepresentable as error:
                problems.append(Problem(f"input '{input_name}': {error}"))
        return problems

    def _bind_part(self, name: str, expression: Any, unknown: Sequence[sympy.Symbol]) -> None:
        """Binds the unknown symbol of an axis called `name`. Raises Unrepresentable unless the axis is factor * symbol + rest."""
        part = unknown[0]
        factor, rest = linear(expression, part) or (0, expression)
        if len(unknown) > 1 or factor <= 0:
            raise Unrepresentable(f"its size is {expression}, which does not determine {', '.join(map(str, unknown))}")
        self.called.add(name)
        if name in self.dims:
            whole = exact_div(self.dims[name] - self.sizes.dim(rest), factor)
            if whole is None or decide(whole, ">=", 0) is False:
                raise Unrepresentable(f"its size is {expression}, and cannot be {self.dims[name]}")
            self.sizes.symbols[part] = whole
            self.parts.append(whole)
        elif factor == 1:
            self.sizes.symbols[part] = symbol(name) - self.sizes.dim(rest)
            self.parts.append(self.sizes.symbols[part])
        else:
            self.sizes.symbols[part] = symbol(f"{name}_part")

    def _type(self, value: torch.Tensor) -> TensorType:
        return TensorType(dtype_name(value.dtype), tuple(self.sizes.dim(d) for d in value.shape))

    def _argument(self, importer: Importer, index: int, inputs: Mapping[int, Any]) -> Any:
        spec, node = self.signature.input_specs[index], self.placeholders[index]
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            if index in inputs:
                hint = re.sub(r"\W", "_", node.name)
                self.sizes.bind(value, read_size(inputs[index], importer.tracer, hint))
            return self.sizes.dim(value)
        if index in inputs:
            return inputs[index]
        if spec.kind is InputKind.USER_INPUT:
            return getattr(spec.arg, "value", None)
        if spec.kind is InputKind.TOKEN:
            return None
        return importer.constant(tensor_of(self.exported, str(spec.target)), str(spec.target))

    # ---- outputs -----------------------------------------------------------------------------------------------------
    def _outputs(
        self, results: list[Any], called: Mapping[str, str]
    ) -> tuple[list[tuple[str, Any]], list[Mutation], list[Any], set[str]]:
        outputs: list[tuple[str, Any]] = []
        mutations: list[Mutation] = []
        user: list[Any] = []
        numbers: set[str] = set()
        taken: set[str] = set()
        names = iter(output_names(self.original.call_spec.out_spec))
        problems = []
        for spec, value in zip(self.signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.TOKEN:
                continue
            if spec.kind is OutputKind.USER_OUTPUT:
                name = next(names)
                if value is None or isinstance(value, (str, int, float, bool)):
                    user.append((value,))
                    continue
                name = unique(name, taken)
                user.append(name)
                if isinstance(spec.arg, NUMBERS):
                    numbers.add(name)
            elif (
                spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
                or "MUTATION" in spec.kind.name
            ):
                buffer = spec.kind is not OutputKind.USER_INPUT_MUTATION
                target = str(spec.target) if buffer else called[str(spec.target)]
                name = unique(f"new_{plain(target)}", taken)
                mutations.append(Mutation(name, target, buffer))
            else:
                problems.append(Problem(f"output of kind {spec.kind.name} is not supported"))
                continue
            if value is not FAILED:
                outputs.append((name, as_output(value)))
        if problems:
            raise ModelError(SUMMARY, problems)
        return outputs, mutations, user, numbers


def tensor_of(exported: ExportedProgram, target: str) -> torch.Tensor:
    """A parameter, buffer or lifted constant by its name."""
    tensor = exported.state_dict[target] if target in exported.state_dict else exported.constants[target]
    assert isinstance(tensor, torch.Tensor)
    return tensor


__all__ = [
    "ImportedProgram",
    "Mutation",
    "decomposed",
    "import_exported",
    "import_program",
    "tensor_of",
]
