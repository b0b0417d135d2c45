"""burn as an `onnx.backend`: what the ONNX project's own test suite drives.

`prepare(model).run(inputs)` compiles a ModelProto for this machine and runs it. A model that burn does not support
raises its BurnError here as everywhere; `BackendIsNotSupposedToImplementIt` is never raised: a refusal is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.base import Backend, BackendRep

from burn.compiler import executable
from burn.errors import DeviceError, InputError
from burn.importers.onnx import import_onnx
from burn.importers.onnx.names import Given
from burn.options import Options
from burn.runtime import Executable
from burn.runtime.device import CPU, Device
from burn.runtime.device import device as as_device

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from burn.options import Given as OptionsGiven


def load_onnx(
    model: Any, *, dims: Given | None = None, inputs: Collection[str] = (), **options: Unpack[OptionsGiven]
) -> Executable:
    """Imports and compiles an ONNX model, past the cache: a path, bytes, or a ModelProto."""
    asked = Options.of(**options)  # before the work
    return executable(import_onnx(model, dims=dims, inputs=inputs), asked)


def opened(load: Callable[[Collection[str]], Executable], named: Iterable[str]) -> Executable:
    """A program that takes the named inputs, default values of the model among them. load: loads it with those as inputs."""
    program = load(())
    given = set(named).intersection(program.artefact.signature.defaults)
    return load(sorted(given)) if given else program


class BurnRep(BackendRep):
    """A compiled model. Inputs are in the order of the graph's inputs, or by name; outputs are in the graph's order."""

    def __init__(self, model: onnx.ModelProto, device: Device = CPU) -> None:
        initialised = {tensor.name for tensor in model.graph.initializer}
        initialised |= {sparse.values.name for sparse in model.graph.sparse_initializer}
        names = [value.name for value in model.graph.input]
        self.required = [name for name in names if name not in initialised]
        self.inputs = self.required + [name for name in names if name in initialised]
        self.outputs = [value.name for value in model.graph.output]
        self.executable: Executable = load_onnx(model, device=device)
        self._opened: dict[frozenset[str], Executable] = {}
        self._load = partial(load_onnx, model, device=device)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Raises InputError when inputs are missing, in excess or of the wrong type; RunError from the program."""
        if not isinstance(inputs, Mapping):
            if not isinstance(inputs, (list, tuple)):
                inputs = [inputs]
            if not len(self.required) <= len(inputs) <= len(self.inputs):
                wanted = f"{len(self.required)} to {len(self.inputs)} ({', '.join(self.inputs)})"
                raise InputError("wrong number of inputs", [f"{len(inputs)} given, the model takes {wanted}"])
            inputs = dict(zip(self.inputs, inputs, strict=False))
        if not set(inputs).isdisjoint(self.executable.artefact.signature.defaults):
            return self._run_with(inputs)
        results = self.executable.run(dict(inputs))
        return tuple(results[name] for name in self.outputs)

    def _run_with(self, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
        """A run with other values for constants that the model offers as inputs."""
        names = frozenset(inputs)
        if names not in self._opened:
            self._opened[names] = opened(lambda given: self._load(inputs=given), names)
        results = self._opened[names].run(dict(inputs))
        return tuple(results[name] for name in self.outputs)


class BurnBackend(Backend):
    """The entry points that `onnx.backend.test` looks for."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        try:
            return as_device(device.lower()).is_present
        except DeviceError:
            return False

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> BurnRep:
        """Compile a model for "CPU", "CUDA" or "CUDA:1". Raises BurnError for one that is malformed or not supported, and for a
        device that is not there."""
        return BurnRep(model, as_device(device.lower()))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node as a model of its own. `opset_version` sets the version of its domain, by default the newest."""
        values = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
        names = [name for name in node.input if name]
        if len(values) != len(names):
            raise InputError("wrong number of inputs", [f"{len(values)} given, the node takes {len(names)}"])
        graph = helper.make_graph(
            [node],
            node.op_type,
            [helper.make_value_info(name, _type_of(value)) for name, value in zip(names, values, strict=True)],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        version = kwargs.pop("opset_version", None) or _newest(node.domain)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.run_model(model, values, device, **kwargs)


def _newest(domain: str) -> int:
    versions = [schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == domain]
    return onnx.defs.onnx_opset_version() if domain == "" else max(versions, default=1)


def _type_of(value: Any) -> onnx.TypeProto:
    """The ONNX type of an input: an array, or a list of arrays for a sequence."""
    if isinstance(value, (list, tuple)):
        if not value:
            raise InputError("input of unknown type", ["an empty sequence does not say what its elements are"])
        element = _type_of(value[0])
        element.tensor_type.ClearField("shape")  # elements may differ in shape
        return helper.make_sequence_type_proto(element)
    array = np.asarray(value)
    return helper.make_tensor_type_proto(numpy_helper.from_array(array).data_type, array.shape)


prepare = BurnBackend.prepare
run_model = BurnBackend.run_model
run_node = BurnBackend.run_node
supports_device = BurnBackend.supports_device
