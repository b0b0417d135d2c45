"""XLA and the reference interpreter of StableHLO, which run a module's text."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
_mlir: Any = importlib.import_module("jax._src.interpreters.mlir")
_ir: Any = importlib.import_module("jaxlib.mlir.ir")
_client: Any = importlib.import_module("jaxlib._jax")
importlib.import_module("jax.extend.backend")
_stablehlo: Any = importlib.import_module("jaxlib.mlir.dialects.stablehlo")


def bytecode(text: str) -> bytes:
    """A module as a portable artefact."""
    with _mlir.make_ir_context():
        return _stablehlo.serialize_portable_artifact(_ir.Module.parse(text), _stablehlo.get_current_version())


def by_xla(text: str, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of @main by XLA on the CPU."""
    backend = jax.extend.backend.get_backend("cpu")
    devices = backend.devices()[:1]
    with _mlir.make_ir_context():
        text = _ir.Module.parse(text).operation.get_asm(print_generic_op_form=True)
        loaded = backend.compile_and_load(text, _client.DeviceList(tuple(devices)), _client.CompileOptions())
    with jax.enable_x64(True):
        results = loaded.execute_sharded([jax.device_put(a, devices[0]) for a in args])
    return [np.asarray(shards[0]) for shards in results.disassemble_into_single_device_arrays()]


def by_interpreter(text: str, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of @main by the reference interpreter. Element types that numpy has."""
    with _mlir.make_ir_context(), _ir.Location.unknown():
        module = _ir.Module.parse(text)
        return [np.array(r) for r in _stablehlo.eval_module(module, [_attribute(a) for a in args])]


def _attribute(array: np.ndarray) -> Any:
    element = {"f4": "f32", "f8": "f64", "i4": "i32", "i8": "i64", "u1": "ui8", "b1": "i1"}[array.dtype.str[1:]]
    type_ = _ir.RankedTensorType.get(array.shape, _ir.Type.parse(element))
    return _ir.DenseElementsAttr.get(np.ascontiguousarray(array), type=type_.element_type, shape=array.shape)
