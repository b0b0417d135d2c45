"""PyTorch modules that burn trains: `burn.compile(module, examples, train=True)`. Enter at `to_train`.

The module is exported in training mode and, on demand, in inference mode. Both programs belong to one
`nn.Graph`, whose parameters have torch's names and initial elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from burn.adapters.torch.calling import Calling
from burn.dialect.weights import Weight, array_weight
from burn.errors import ModelError, Problem
from burn.importers.opened import Opened
from burn.importers.torch.dtypes import dtype_name, to_array, to_tensor
from burn.importers.torch.export import export
from burn.importers.torch.exported import ImportedProgram, import_program, tensor_of
from burn.nn.graph import Forms, Graph
from burn.tensors import Tensor, constant
from burn.tensors.trees import is_array


def to_train(
    module: torch.nn.Module | ExportedProgram,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Mapping[Any, Any] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
) -> TorchGraph:
    """A module as one of burn's, to be trained. args, kwargs, dynamic: as for `compile_module`. An exported program is what it
    was exported as, in training and in inference alike. Raises ModelError with everything that cannot be imported."""
    if isinstance(args, Mapping):
        args, kwargs = (), {**args, **(kwargs or {})}
    if isinstance(args, torch.Tensor):
        args = (args,)
    forms = _Exports(module, args, kwargs, dynamic, dims)
    return TorchGraph(Forms(forms.of, (True,)), forms)


class _Exports:
    """The module's exported programs by training mode, and their calling conventions. Parameters start with copies of the
    module's elements, because torch may write to its own."""

    __slots__ = ("_args", "_module", "callings")

    def __init__(self, module: Any, *args: Any) -> None:
        self._module, self._args = module, args
        self.callings: dict[bool, Calling] = {}

    def of(self, training: bool) -> Opened:
        args, kwargs, dynamic, dims = self._args
        if isinstance(self._module, ExportedProgram):
            exported, names, answers = self._module, {}, ()
        else:
            with _mode(self._module, training):
                made = export(self._module, args, kwargs, dynamic)
            exported, names, answers = made.program, made.names, made.answers
        imported = import_program(exported, names=names, dims=dims, answers=answers, opens=True)
        self.callings[training] = Calling(imported, exported)
        return _opened(imported, exported)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Exports:
        return self


@contextmanager
def _mode(module: torch.nn.Module, training: bool) -> Iterator[None]:
    before = {part: part.training for part in module.modules()}
    module.train(training)
    try:
        yield
    finally:
        for part, mode in before.items():
            part.training = mode


def _opened(imported: ImportedProgram, exported: ExportedProgram) -> Opened:
    """A program whose inputs are, besides the user's, what the module's state holds; tensors under several names once."""
    program = imported.program
    changed = [m.name for m in imported.mutations if not m.buffer]
    if changed:
        problems = [Problem(f"it writes to its input '{name}'", hint="return the new value") for name in changed]
        raise ModelError("the module cannot be trained", problems)
    tensors = {target: tensor_of(exported, target) for target in imported.buffers.values()}
    first: dict[Any, str] = {}
    called = {target: first.setdefault(_memory(tensor), target) for target, tensor in tensors.items()}
    parameters = {i: called[imported.buffers[n]] for i, n in enumerate(program.input_names) if n in imported.buffers}
    by_name = {name: i for i, name in parameters.items()}
    outputs = {name: i for i, name in enumerate(program.output_names)}
    program.renews = {outputs[m.output]: by_name[called[m.name]] for m in imported.mutations}
    learned = {name: tensors[name] for name in first.values() if isinstance(tensors[name], torch.nn.Parameter)}
    return Opened(
        program,
        parameters,
        {name: _copied(tensors[name]) for name in first.values()},
        frozenset(first.values()) - learned.keys(),
        frozenset(name for name, tensor in learned.items() if not tensor.requires_grad),
    )


def _memory(tensor: torch.Tensor) -> Any:
    """A key that is equal for tensors over the same elements."""
    return (tensor.data_ptr(), tensor.shape, tensor.stride()) if tensor.numel() else id(tensor)


def _copied(tensor: torch.Tensor) -> Weight:
    array = np.array(to_array(tensor), order="C")
    return (
        Weight(dtype_name(tensor.dtype), tuple(array.shape), array) if array.dtype.kind == "V" else array_weight(array)
    )


class TorchGraph(Graph):
    """A PyTorch module as one of burn's: called as the module is, with tensors of burn's."""

    def __init__(self, forms: Forms, exports: _Exports) -> None:
        super().__init__(forms)
        self._exports = exports

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result as burn tensors. Raises InputError for arguments that the export does not support."""
        self._forms.of(self.training)
        calling = self._exports.callings[self.training]
        given = calling.inputs(calling.leaves(args, kwargs))
        results = self.run({name: _tensor(value) for name, value in given.items()})
        return calling.result(results.__getitem__)

    def copy_to(self, module: torch.nn.Module) -> None:
        """Gives a PyTorch module the elements that parameters and buffers have now, all or none. Raises ModelError listing what
        the module lacks or has in another shape."""
        theirs = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        ours = dict(self.named_parameters())
        problems = [Problem(f"there is no '{name}'") for name in ours if name not in theirs]
        problems += [
            Problem(f"'{name}' is {list(theirs[name].shape)}, not {list(p.shape)}")
            for name, p in ours.items()
            if name in theirs and tuple(theirs[name].shape) != tuple(p.shape)
        ]
        if problems:
            raise ModelError(f"{type(module).__name__} is another module", problems)
        with torch.no_grad():
            for name, p in ours.items():
                theirs[name].copy_(to_tensor(np.array(p.array)))


def _tensor(value: Any) -> Tensor:
    if isinstance(value, torch.Tensor):
        return constant(to_array(value))
    return constant(value) if isinstance(value, Tensor) or is_array(value) else value
