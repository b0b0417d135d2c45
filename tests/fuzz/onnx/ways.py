"""The ways a model goes through burn.

Loading, import as source, export, compilation for size or to a package, constant folding (all inputs are constants), and binaries
(binaries.py)."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import onnx
from onnx import numpy_helper

import burn
from burn.codegen.cpu.heuristics import programs
from burn.codegen.cpu.target import compact, find, host_target
from burn.compiler import executable as compiled
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.exporters.onnx import write
from burn.exporters.python.generate import Source, generate
from burn.importers.onnx import import_onnx
from burn.importers.onnx.names import Given
from burn.importers.weights import safetensors
from burn.options import Options as CompileOptions
from burn.runtime.device import Device
from burn.runtime.host import features
from burn.toolchain import platforms

from . import binaries, reference
from .noise import HALF
from .values import Array

Feed = dict[str, Array]
Run = Callable[[Feed], dict[str, Any]]
BACK = "exported "  # before the name of an output that ONNX Runtime computes from burn's export


def load(
    model: onnx.ModelProto, target: str | None, opset: int, dims: Given | None = None, precision: str = "fp32"
) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        return burn.load(path, cache=False, target=target, dims=dims, precision=precision).run


def in_half(precision: str) -> Callable[[onnx.ModelProto, str | None, int], Run]:
    return lambda model, target, opset: load(model, target, opset, precision=precision)


def written(model: onnx.ModelProto, dims: Given | None = None) -> Source:
    """The source that reads well: what only the plain one can say is a failure here."""
    return generate(import_onnx(model.SerializeToString(), dims=dims), "Model", "model.onnx", plain=False)


def source(model: onnx.ModelProto, target: str | None, opset: int, dims: Given | None = None) -> Run:
    """As burn-import does: written, read by Python, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        made = written(model, dims)
        Path(folder, "model.py").write_text(made.text)
        safetensors.write(Path(folder, "model.safetensors"), made.tensors)
        module = _python(Path(folder, "model.py")).Model.from_file(Path(folder, "model.safetensors"))
        executable = burn.compile(module, target=target)
    inputs, outputs = [value.name for value in model.graph.input], [value.name for value in model.graph.output]

    def run(feed: Feed) -> dict[str, Any]:
        results = executable(*(feed[name] for name in inputs))
        return dict(zip(outputs, results if isinstance(results, tuple) else (results,), strict=True))

    return run


def export(model: onnx.ModelProto, target: str | None, opset: int, dims: Given | None = None) -> Run:
    """ONNX Runtime must take what burn writes, and burn must read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        exported = write(import_onnx(model.SerializeToString(), dims=dims), path, opset)
        onnx.checker.check_model(exported)
        session, executable = reference.session(exported), burn.load(path, cache=False, target=target)

    def run(feed: Feed) -> dict[str, Any]:
        theirs = reference.outputs(session, feed)
        return executable.run(feed) | {BACK + name: array for name, array in theirs.items()}

    return run


def size(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    """As for `--optimize size`, with sizes as arguments of kernels: that is how programs of many kernels have them."""
    cpu = compact(find(target) if target else host_target(features()))
    with mock.patch.object(programs, "FEW_KERNELS", 0):
        return compiled(import_onnx(model.SerializeToString()), CompileOptions(target=cpu)).run


def package(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    """As by `burn-compile -o model.burn`, every other one for size."""
    options = Options(platforms.find(platforms.HOST), target, small=bool(opset % 2))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.burn"
        build("package", import_onnx(model.SerializeToString()), path, options)
        return burn.load(path).run


def folded(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    def run(feed: Feed) -> dict[str, Any]:
        constant = onnx.ModelProto()
        constant.CopyFrom(model)
        del constant.graph.input[:]
        constant.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in feed.items())
        return load(constant, target, opset)({})

    return run


def interpreted(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    """On the reference device."""
    return compiled(import_onnx(model.SerializeToString()), CompileOptions(device=Device("reference"))).run


def by_cuda(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    """On a GPU."""
    return compiled(import_onnx(model.SerializeToString()), CompileOptions(device=Device("cuda"))).run


def by_xla(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    """As StableHLO, by XLA."""
    return compiled(import_onnx(model.SerializeToString()), CompileOptions(device=Device("xla"))).run


def by_wgpu(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    """As WGSL, by WebGPU."""
    return compiled(import_onnx(model.SerializeToString()), CompileOptions(device=Device("wgpu"))).run


WAYS: dict[str, Callable[[onnx.ModelProto, str | None, int], Run]] = {
    "load": load,
    **{name: in_half(name) for name in HALF},
    "import": source,
    "export": export,
    "size": size,
    "package": package,
    "folded": folded,
    "reference": interpreted,
    "cuda": by_cuda,
    "xla": by_xla,
    "wgpu": by_wgpu,
    "command": binaries.command,
    "library": binaries.library,
    "wasm": binaries.wasm,
}
EXPORT_OPSETS = (18, 20, 21, 22, 23)


def _python(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("generated_model", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
