"""From a training step to a command or a library that trains without Python. Enter at `build`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from burn import toolchain
from burn.deploy import beside, customs, native_runtime, tables, train_interface, wasm
from burn.deploy import weights as stored
from burn.deploy.embedded import embedded
from burn.deploy.interface import Interface, Parameter, model_name
from burn.deploy.linking import (
    MOST_EMBEDDED,
    called,
    code_of,
    compiled,
    entry_name,
    merged,
    placed,
    refuse_python,
    written,
)
from burn.deploy.options import Options
from burn.deploy.report import Report
from burn.deploy.train_interface import TrainInterface
from burn.deploy.training import Part, Training
from burn.deploy.weights import Weights
from burn.errors import CompileError, Problem
from burn.runtime import _native, files
from burn.runtime.artefact import Artefact, Constant
from burn.toolchain import Toolchain

NATIVE = native_runtime.OWN / "train"
LIBRARY = ("checkpoint.c", "json.c", "train.c")
"""The sources of a library besides the runtime's, in native/train."""

_COMMON = ("crc32.c", "files.c")
_COMMAND = ("command.c", "npz.c", "inflate.c")


def build(kind: str, training: Training, output: Path, options: Options) -> list[Path]:
    """Writes a training as one of `KINDS`; gives the files, the main one first. Raises CompileError."""
    if kind not in KINDS:
        hint = f"--emit {', '.join(KINDS)}"
        raise CompileError(
            "a training step is made into a command, a library or a module of WebAssembly",
            [Problem(f"not {kind}", hint=hint)],
        )
    if options.gpus:
        hint = "without --target cuda; burn.train trains on GPUs"
        raise CompileError("training binaries run on CPUs", [Problem(f"the target is {options.gpus[0]}", hint=hint)])
    if options.platform.is_bare:
        hint = "write the step as a function of weights that returns the next ones"
        problem = Problem(f"{options.platform.name} has no memory to allocate", hint=hint)
        raise CompileError("a training with state needs an operating system", [problem])
    return KINDS[kind](training, output, options)


@dataclass(frozen=True)
class _Parts:
    """The parts of a binary besides the runtime."""

    interface: TrainInterface
    weights: Weights
    file: str  # of the weights, or ""
    objects: list[Path]
    chain: Toolchain
    linking: list[str]
    version: str


def _exe(training: Training, output: Path, options: Options) -> list[Path]:
    if options.platform.program is None:
        raise CompileError(f"there are no executables on {options.platform.name}", ["--emit wasm"])
    with tempfile.TemporaryDirectory() as scratch:
        parts = _parts(training, output, options, Path(scratch), is_command=True, has_rows=True)
        more = [*(NATIVE / name for name in (*LIBRARY, "main.c")), *_own(*_COMMON, *_COMMAND)]
        with _runtime(parts, options, more) as runtime:
            made = Path(scratch) / "program"
            parts.chain.program([*parts.objects, *runtime], made, parts.linking)
            return [placed(made, output), *_weights_file(parts, output.parent)]


def _shared(training: Training, output: Path, options: Options) -> list[Path]:
    def link(parts: _Parts, runtime: Sequence[Path], made: Path) -> None:
        exports = [f"{parts.interface.name}_{f.verb}" for f in train_interface.functions(parts.interface)]
        parts.chain.shared([*parts.objects, *runtime], made, exports, parts.linking)

    return _library(training, output, options, options.platform.shared, link)


def _static(training: Training, output: Path, options: Options) -> list[Path]:
    def archive(parts: _Parts, runtime: Sequence[Path], made: Path) -> None:
        parts.chain.archive([*parts.objects, *runtime], made)

    return _library(training, output, options, options.platform.static, archive)


def _wasm(training: Training, output: Path, options: Options) -> list[Path]:
    """An npm package: a module with the initial weights, and an ES module that loads it."""
    if options.platform.architecture != "wasm32" or toolchain.find(options.platform).platform.name != "wasm32":
        raise CompileError(f"there are no modules that train for {options.platform.name}", ["--target wasm32"])
    with tempfile.TemporaryDirectory() as scratch:
        parts = _parts(training, output, replace(options, beside=False), Path(scratch), is_command=True)
        made = Path(scratch) / "model.wasm"
        with _runtime(parts, options, [*(NATIVE / n for n in (*LIBRARY, "module.c")), *_own("crc32.c")]) as runtime:
            parts.chain.module([*parts.objects, *runtime], made)
        module = made.read_bytes()
    step, predict = parts.interface.step, parts.interface.predict
    about = {
        "step": {"inputs": _specs(step.inputs), "outputs": _specs(step.outputs)},
        "predict": predict and {"inputs": _specs(predict.inputs), "outputs": _specs(predict.outputs)},
        "state": train_interface.tensors(training),
        "moduleBytes": len(module),
    }
    output.mkdir(parents=True, exist_ok=True)
    files_ = [
        ("index.js", wasm.script(NATIVE / "index.js", about).encode()),
        ("index.d.ts", train_interface.typescript(parts.interface).encode()),
        ("package.json", wasm.package_json(parts.interface.name, parts.version, []).encode()),
        ("model.wasm", module),
    ]
    return [path for name, data in files_ for path in written(output / name, data)]


def _specs(parameters: Sequence[Parameter]) -> list[dict[str, object]]:
    return wasm.described([p.spec for p in parameters])


KINDS: dict[str, Callable[[Training, Path, Options], list[Path]]] = {
    "exe": _exe,
    "shared": _shared,
    "static": _static,
    "wasm": _wasm,
}


def _library(
    training: Training,
    output: Path,
    options: Options,
    pattern: str | None,
    link: Callable[[_Parts, Sequence[Path], Path], None],
) -> list[Path]:
    """A folder with a library, its header and what goes with it."""
    if pattern is None:
        raise CompileError(f"there are no such libraries on {options.platform.name}")
    with tempfile.TemporaryDirectory() as scratch:
        parts = _parts(training, output, options, Path(scratch))
        name = parts.interface.name
        library = pattern.format(name)
        with _runtime(parts, options, [*(NATIVE / n for n in LIBRARY), *_own(*_COMMON)]) as runtime:
            link(parts, runtime, Path(scratch) / library)
        shared = pattern == options.platform.shared
        texts = [
            (f"{name}.h", train_interface.text_of_header(parts.interface, parts.version)),
            ("main.c", beside.training_example(parts.interface, parts.file)),
            ("CMakeLists.txt", beside.cmake(name, library, options.linked, shared)),
            (f"{name}.pc", beside.pkg_config(name, options.linked, shared, parts.version)),
        ]
        output.mkdir(parents=True, exist_ok=True)
        made = [placed(Path(scratch) / library, output / library), *_weights_file(parts, output)]
        return [*made, *(path for file, text in texts for path in written(output / file, text.encode()))]


def _own(*names: str) -> list[Path]:
    return [native_runtime.OWN / name for name in names]


@contextmanager
def _runtime(parts: _Parts, options: Options, more: Sequence[Path]) -> Iterator[list[Path]]:
    """The objects of the runtime, which models without training also have, and of the training."""
    told = parts.chain.smallest if options.small else ()
    with (
        native_runtime.objects(parts.chain, told=told) as runtime,
        native_runtime.compiled(parts.chain, more, (*told, f"-I{NATIVE}")) as own,
    ):
        yield [*own, *runtime]


def _parts(
    training: Training, output: Path, options: Options, scratch: Path, is_command: bool = False, has_rows: bool = False
) -> _Parts:
    """is_command: a program's or a module's, without a header. has_rows: it makes batches of arrays."""
    chain = toolchain.find(options.linked)  # before the work, as it may not be there
    name = model_name(options.name or output.stem)
    as_text = options.as_text or (options.small and chain.takes_triple)
    sources = {"step": training.step} | ({"predict": training.predict} if training.predict else {})
    made = {
        verb: [compiled(part.program.copy(), None, options.compilation(t, as_text)) for t in options.targets]
        for verb, part in sources.items()
    }
    interfaces = {verb: _interface(name, made[verb][-1], part) for verb, part in sources.items()}
    interface = TrainInterface(name, interfaces["step"], interfaces.get("predict"))
    rows = train_interface.rows_of(interface) if has_rows else None
    everything = [artefact for found in made.values() for artefact in found]
    for artefact in everything:
        refuse_python(called(artefact))
        customs.refuse_python(artefact)
    initial = [Constant.of(np.ascontiguousarray(s.tensor.weight.array())) for s in training.states]
    others = [number for number, constant in enumerate(initial) if np.frombuffer(constant.data, np.uint8).any()]
    constants, numbers = merged([*(a.constants for a in everything), [initial[i] for i in others]])
    beside_it = f"{output.stem if is_command else name}.weights.safetensors"  # net.safetensors is a usual checkpoint
    file = beside_it if options.beside and constants else ""
    weights = stored.layout(constants, as_file=bool(file))
    if options.told:
        options.told(Report.of(made["step"][-1], sum(constant.bytes for constant in constants)))
    offsets = [-1] * len(initial)
    for number, entry in zip(others, numbers[-1], strict=True):
        offsets[number] = weights.entries[entry].offset
    checksum = _native.checksum(weights.joined()) if file else 0
    version = everything[0].burn_version
    entries = iter(numbers)
    code, texts = [], []
    for verb, found in made.items():
        versions = [
            tables.Version(
                artefact, entry_name(f"{name}_{verb}", None, target), [weights.entries[n] for n in next(entries)]
            )
            for artefact, target in zip(found, options.targets, strict=True)
        ]
        code += [code_of(v.artefact, v.entry, options, scratch) for v in versions]
        declared = f"const burn_model_facts {name}_{verb}_facts"
        parts = tables.facts(interfaces[verb], versions, weights, file, checksum, f"the {verb} of {name}", declared)
        texts.append((f"{name}_{verb}_tables.c", "\n\n".join(['#include "model.h"', *parts]) + "\n"))
    told = (weights.bytes, file)
    about = train_interface.about(
        interface, training, version, options.platform.name, made["step"][-1].target.features, told
    )
    texts.append((f"{name}_training.c", train_interface.source(interface, training, offsets, version, about, rows)))
    paths = []
    for path, text in ((scratch / file_name, text) for file_name, text in texts):
        path.write_text(text)
        paths.append(path)
    if weights.bytes and not file:
        if weights.bytes > MOST_EMBEDDED:
            what = f"weights of {weights.bytes} bytes do not fit into a binary"
            raise CompileError(f"{name} cannot be linked", [Problem(what, hint="--weights file leaves them beside it")])
        paths.append(embedded(f"{name}_weights", stored.chunks(weights), options.platform, scratch))
    visible = f'-D{name.upper()}_API=__attribute__((visibility("default")))'
    flags = [*native_runtime.flags(), f"-I{NATIVE}", visible, *["-DBURN_PROGRAM"] * is_command]
    flags += chain.smallest if options.small else ()
    own, linking = customs.objects(everything, chain, scratch)
    return _Parts(
        interface, weights, file, [*code, *chain.compile(paths, scratch, flags), *own], chain, linking, version
    )


def _interface(name: str, artefact: Artefact, part: Part) -> Interface:
    """The interface of a program without its state."""
    signature = artefact.signature
    visible = replace(signature, inputs=signature.inputs[: part.inputs], outputs=signature.outputs[: part.outputs])
    return Interface.of(name, visible)


def _weights_file(parts: _Parts, folder: Path) -> list[Path]:
    if not parts.file:
        return []
    with files.whole(folder / parts.file) as file:
        for chunk in stored.chunks(parts.weights):
            file.write(chunk)
    return [folder / parts.file]
