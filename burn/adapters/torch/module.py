"""A compiled PyTorch module: called as the module is, with tensors, it returns what the module would. Enter at
`compile_module`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from burn.adapters.torch.calling import Calling, argument_names
from burn.caching import executable
from burn.errors import InputError, Problem
from burn.importers.torch.dtypes import to_array, to_tensor
from burn.importers.torch.export import export
from burn.importers.torch.exported import ImportedProgram, import_program, tensor_of
from burn.importers.torch.random import draw_state
from burn.options import Options
from burn.runtime import Executable
from burn.tensors import Tensor
from burn.tracing.arguments import donated_names


def compile_module(
    module: torch.nn.Module | ExportedProgram,
    args: Sequence[Any] | Mapping[str, Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Mapping[Any, Any] | None = None,
    options: Options | None = None,
    donate: Sequence[int | str] = (),
) -> CompiledModule:
    """Compiles a module, or a program that torch.export made of one.

    args: example inputs by position, or by name as a mapping. kwargs: further ones by name. dynamic: sizes that vary, see
    `export`; an exported program has its own. The compiled module has the present weights; later changes have no
    effect (they do in `torch.compile(backend="burn")`). `donate`: arguments, by position or name, whose memory results may
    overwrite.

    Raises ModelError with everything that cannot be imported."""
    if isinstance(args, Mapping):
        args, kwargs = (), {**args, **(kwargs or {})}
    if isinstance(module, ExportedProgram):
        exported, names, answers = module, {}, ()
    else:
        if isinstance(args, torch.Tensor):
            args = (args,)
        made = export(module, args, kwargs, dynamic)
        exported, names, answers = made.program, made.names, made.answers
    imported = import_program(exported, names=names, answers=answers)
    imported.program.given_up = _given_up(exported, imported, donate)
    return CompiledModule(executable(imported.program, options), imported, exported)


class CompiledModule:
    """An executable with a module's calling convention.

    Tensors are passed on through their own memory, whatever their strides; results are tensors over the executable's
    outputs. Buffers that the module changes are changed by the call. `executable` is the plain program: arrays in, arrays
    out, by the names of `inputs`."""

    def __init__(self, executable: Executable, imported: ImportedProgram, exported: ExportedProgram) -> None:
        self.executable = executable
        executable.draw_from(draw_state)
        self._imported = imported
        self._calling = Calling(imported, exported)
        self._buffers = {name: tensor_of(exported, target) for name, target in imported.buffers.items()}
        self._order = [spec.name for spec in executable.inputs]
        outputs = [spec.name for spec in executable.outputs]
        self._indices = {name: i for i, name in enumerate(outputs)}
        is_direct = executable.device.memory.is_host and not imported.program.given_up  # only arrays can be donated
        self._input = _tensor_or_array if is_direct else _array

    @property
    def inputs(self) -> tuple[Any, ...]:
        return self.executable.inputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        return self.executable.outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module, with its arguments by position or by name. Raises
        InputError for arguments that do not fit the program, and RunError."""
        calling = self._calling
        leaves = calling.leaves(args, kwargs)
        if torch.is_grad_enabled() and any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves):
            hint = 'torch.compile(module, backend="burn") has gradients; else call it within torch.no_grad()'
            raise InputError("the inputs do not fit the program", [Problem("it has no gradients to give", hint=hint)])
        given = {**self._buffers, **calling.inputs(leaves)}
        results = self.executable(*[self._input(given[name]) for name in self._order])
        if len(self._indices) == 1:
            results = (results,)
        if self._imported.mutations:
            self._write_back(results, given)
        return calling.result(lambda name: _tensor(results[self._indices[name]]))

    def _write_back(self, results: Sequence[Any], given: Mapping[str, Any]) -> None:
        targets = {target: name for name, target in self._imported.buffers.items()}
        for mutation in self._imported.mutations:
            tensor = given[targets[mutation.name] if mutation.buffer else mutation.name]
            with torch.no_grad():
                tensor.copy_(_tensor(results[self._indices[mutation.output]]))

    def __repr__(self) -> str:
        return f"CompiledModule({self.executable!r})"


def _tensor_or_array(value: Any) -> Any:
    """An input for an executable on a CPU. It reads a dense torch tensor itself, in a tenth of the time that numpy's views of
    inputs and outputs take."""
    is_plain = type(value) is torch.Tensor and value.is_cpu and value.layout is torch.strided
    if not is_plain or value.requires_grad or value.is_conj() or value.is_neg():
        return _array(value)
    return value


def _array(value: Any) -> Any:
    """An input for the executable that makes it return arrays: a torch or burn tensor, an array, a number. A
    torch tensor on a GPU is passed and returned directly."""
    if isinstance(value, torch.Tensor):
        return to_array(value) if value.device.type == "cpu" else value.detach().contiguous()
    return value.numpy() if isinstance(value, Tensor) else value


def _tensor(value: Any) -> torch.Tensor:
    """A result as a torch tensor; for inputs on a GPU it already is one."""
    return value if isinstance(value, torch.Tensor) else to_tensor(value)


def _given_up(exported: ExportedProgram, imported: ImportedProgram, donate: Sequence[int | str]) -> tuple[int, ...]:
    """The numbers of the inputs named by `donate`, without inputs that the module itself writes, which receive their new
    values."""
    names = argument_names(exported)
    wanted = donated_names(donate, names)
    assert exported.call_spec.in_spec is not None
    arguments = [a for part in exported.call_spec.in_spec.children() for a in part.children()]
    owners = [name for name, a in zip(names, arguments, strict=True) for _ in range(a.num_leaves)]
    kept = {mutation.name for mutation in imported.mutations}
    inputs = {name for owner, name in zip(owners, imported.user_inputs, strict=True) if owner in wanted} - kept
    return tuple(i for i, name in enumerate(imported.program.input_names) if name in inputs)
