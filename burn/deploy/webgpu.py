"""A program for WebGPU in a page: an npm package whose tensors stay on the GPU, with the CPU's package beside it.

| file | content |
|---|---|
| `index.js`, `index.d.ts` | the ES module, and its types |
| `gpu.js`, `picture.js`, `errors.js` | its parts: WebGPU for the module, pictures as inputs, the errors it throws |
| `model.wasm` | the entry function (sizes, memory, launches), the runtime, and the driver |
| `kernels.wgsl` | the texts of the kernels |
| `model-software.wasm`, `kernels-software.wgsl` | the same two for adapters that run on the CPU |
| `weights.safetensors` | constants |
| `weights-software.safetensors` | those that only the second pair has, if there are any |
| `cpu/` | the package for CPUs (wasm.py), read only if there is no usable adapter |

A page reads one module and its kernels. The entry function is the one that `device="wgpu"` runs natively, compiled to
WebAssembly. native/webgpu has the driver.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from burn import toolchain
from burn.codegen.cpu.target import Target
from burn.codegen.wgsl.limits import SOFTWARE
from burn.compiler import compile_program
from burn.deploy import customs, native_runtime, tables, wasm
from burn.deploy import weights as stored
from burn.deploy.gpus import GpuTarget
from burn.deploy.report import Report
from burn.deploy.webgpu_versions import Version, versions_of
from burn.dialect.program import Program
from burn.errors import CompileError, Problem
from burn.options import OFF
from burn.options import Options as CompileOptions
from burn.runtime.artefact import Artefact
from burn.toolchain import Toolchain, platforms

NATIVE = Path(__file__).parent / "native" / "webgpu"
KIND = "wgpu"
"""The kind of device of the programs."""

PARTS = ("gpu.js", "picture.js", "errors.js")
"""Modules of JavaScript that are the same for every model."""

FEATURES = {"f16": "shader-f16", "subgroups": "subgroups"}
"""Extensions that a text of WGSL enables, and the adapter's features that they need."""

_ENABLED = re.compile(rb"^enable ([\w, ]+);", re.MULTILINE)
_WAITING = re.compile(r"@burn_rt_(fetch|device_read|device_await)\(")
"""Calls of the entry function that read from the GPU during a call."""


def package(
    program: Program,
    output: Path,
    name: str,
    target: Target,
    chain: Toolchain,
    gpu: GpuTarget,
    told: Callable[[Report], None] | None = None,
) -> list[Path]:
    """Writes the folder of the package; gives its files, the ES module first. target, chain: of the package for CPUs. Raises
    CompileError, also for inputs and outputs that are not tensors of numbers."""
    options = CompileOptions(target, as_text=True, autotune=OFF, device=gpu.device, architecture=gpu.architecture)
    artefact, interface = wasm.compiled(program.copy(), name, options, told)
    _check(artefact)
    software = compile_program(program.copy(), replace(options, architecture=SOFTWARE)).resolved()
    versions = versions_of(artefact, software)
    modules = [(version.module_file, [_module(version)]) for version in versions]
    code = [*modules, *((version.texts_file, [version.texts]) for version in versions)]
    weights = [(file, stored.chunks(each)) for file, each in versions[1].weights]
    about = _about(artefact, versions, [len(module) for _, (module,) in modules])
    more = [*PARTS, *(file for file, _ in [*code, *weights]), "cpu"]
    written = [
        ("index.js", [wasm.script(NATIVE / "index.js", about).encode()]),
        ("index.d.ts", [_types(artefact).encode()]),
        ("package.json", [wasm.package_json(interface.name, artefact.burn_version, more).encode()]),
        *((part, [(NATIVE / part).read_bytes()]) for part in PARTS),
        *code,
        *weights,
    ]
    paths = wasm.write(output, written)
    cpu = wasm.package(program, output / "cpu", f"{interface.name}-cpu", target, chain)
    return [*paths, *cpu]


def _check(artefact: Artefact) -> None:
    """Raises CompileError for a program whose inputs, outputs or constants only a CPU has."""
    signature = artefact.signature
    values = [("input", spec) for spec in signature.inputs] + [("output", spec) for spec in signature.outputs]
    problems = [
        Problem(f"{kind} '{spec.name}' is {spec.type_text}", hint="--target wasm32 makes a package for CPUs")
        for kind, spec in values
        if spec.containers or spec.keys or spec.dtype == "string"
    ]
    if any(constant.dtype == "string" for constant in artefact.constants):
        problems.append(Problem("it has constants that are strings", hint="--target wasm32 makes a package for CPUs"))
    if problems:
        raise CompileError("a package for WebGPU holds tensors of numbers alone", problems)


def _module(version: Version) -> bytes:
    artefact, chain = version.artefact, toolchain.find(platforms.find("wasm32"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "code.ll").write_bytes(artefact.code)
        (folder / "tables.c").write_text(tables.module(artefact, [entry for _, entry in version.constants]))
        sources = [folder / "code.ll", folder / "tables.c"]
        flags = [f"-I{wasm.NATIVE}", *native_runtime.flags()]
        made = chain.compile(sources, folder, [*flags, "-Wno-override-module"])
        own, _ = customs.objects([artefact], chain, folder)
        more = [*sorted(NATIVE.glob("*.c")), wasm.NATIVE / "values.c"]
        told = [f"-I{wasm.NATIVE}", "-Os"]
        with native_runtime.objects(chain, more=more, told=told, page=True) as runtime:
            chain.module([*made, *own, *runtime], folder / "model.wasm")
        return (folder / "model.wasm").read_bytes()


def _about(artefact: Artefact, versions: Sequence[Version], sizes: Sequence[int]) -> dict[str, object]:
    """The description of a model in index.js. sizes: the bytes of each version's module."""
    return {
        "inputs": wasm.described(artefact.signature.inputs),
        "outputs": wasm.described(artefact.signature.outputs),
        "random": artefact.signature.random_state,
        "messages": wasm.messages(),
        **{version.name: _version(version, size) for version, size in zip(versions, sizes, strict=True)},
    }


def _version(version: Version, module_bytes: int) -> dict[str, object]:
    artefact = version.artefact
    return {
        "module": [version.module_file, module_bytes],
        "texts": [version.texts_file, len(version.texts)],
        "weights": [[file, each.bytes] for file, each in version.weights],
        "kernels": [[image.name, memoryview(image.data).nbytes] for image in artefact.images],
        "constants": [
            [file, entry.offset, entry.bytes, f"{constant.dtype}[{', '.join(map(str, constant.shape))}]"]
            for (file, entry), constant in zip(version.constants, artefact.constants, strict=True)
        ],
        "lanes": max((image.threads for image in artefact.images), default=1),
        "features": features(version.texts),
        "waits": bool(_WAITING.search(bytes(artefact.code).decode())),
        "sites": list(artefact.sites),
    }


def features(kernels: bytes) -> list[str]:
    """The adapter's features that texts of kernels need."""
    enabled: set[str] = {name.strip().decode() for found in _ENABLED.finditer(kernels) for name in found[1].split(b",")}
    return sorted(FEATURES.get(name, name) for name in enabled)


def _types(artefact: Artefact) -> str:
    """The types of index.js for TypeScript."""
    inputs = wasm.fields(artefact.signature.inputs, "{0} | Tensor<{0}> | GPUTensor | Picture | PictureSource")
    text = (NATIVE / "index.d.ts").read_text()
    text = text.replace("  // @INPUTS@\n", inputs)
    return text.replace("  // @OUTPUTS@\n", wasm.fields(artefact.signature.outputs, "Output<{0}>"))
