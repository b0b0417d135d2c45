"""From a training step to a command or a library that trains without Python. Enter at `build`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from burn import toolchain
from burn.deploy import beside, customs, native_runtime, outputs, tables, train_interface, wasm
from burn.deploy import weights as stored
from burn.deploy.interface import Interface, Parameter, model_name
from burn.deploy.linking import (
    called,
    code_of,
    compiled,
    entry_name,
    merged,
    refuse_python,
    written,
)
from burn.deploy.options import Options
from burn.deploy.report import Report
from burn.deploy.train_interface import TrainInterface
from burn.deploy.training import Part, Training
from burn.deploy.weights import Weights
from burn.errors import CompileError, Problem
from burn.runtime import _native
from burn.runtime.artefact import Artefact, Constant
from burn.toolchain import Toolchain

NATIVE = native_runtime.OWN / "train"
LIBRARY = ("checkpoint_content.c", "checkpoint_read.c", "checkpoint_sums.c", "checkpoint_write.c", "json.c", "train.c")
"""The sources of a training besides the runtime's, in native/train. Libraries and commands have `FILES` too, and commands
`COMMAND`."""
FILES = ("checkpoint_file.c",)
COMMAND = (
    "command_epochs.c",
    "command_main.c",
    "command_options.c",
    "command_order.c",
    "command_predict.c",
    "command_rows.c",
)

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
        hint = f"without --target {options.gpus[0].kind}; burn.train trains on GPUs"
        raise CompileError("training binaries run on CPUs", [Problem(f"the target is {options.gpus[0]}", hint=hint)])
    if options.platform.is_bare:
        hint = "write the step as a function of weights that returns the next ones"
        problem = Problem(f"{options.platform.name} has no memory to allocate", hint=hint)
        raise CompileError("a training with state needs an operating system", [problem])
    return KINDS[kind](training, output, options)


def _exe(training: Training, output: Path, options: Options) -> list[Path]:
    return outputs.command(partial(_parts, training, output, options, "command"), output, options)


def _shared(training: Training, output: Path, options: Options) -> list[Path]:
    return outputs.shared(partial(_parts, training, output, options, "shared"), output, options)


def _static(training: Training, output: Path, options: Options) -> list[Path]:
    return outputs.static(partial(_parts, training, output, options, "static"), output, options)


def _wasm(training: Training, output: Path, options: Options) -> list[Path]:
    """An npm package: a module with the initial weights, and an ES module that loads it."""
    if options.platform.architecture != "wasm32" or toolchain.find(options.platform).platform.name != "wasm32":
        raise CompileError(f"there are no modules that train for {options.platform.name}", ["--target wasm32"])
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        made = _compiled(training, output, replace(options, beside=False), "module", scratch)
        sources = [*(NATIVE / name for name in (*LIBRARY, "module.c")), *_own("crc32.c")]
        with _runtime(made.chain, options, sources) as runtime:
            made.chain.module([*made.objects, *runtime], scratch / "model.wasm")
        module = (scratch / "model.wasm").read_bytes()
    step, predict = made.interface.step, made.interface.predict
    about = {
        "step": {"inputs": _specs(step.inputs), "outputs": _specs(step.outputs)},
        "predict": predict and {"inputs": _specs(predict.inputs), "outputs": _specs(predict.outputs)},
        "state": train_interface.tensors(training),
        "moduleBytes": len(module),
    }
    output.mkdir(parents=True, exist_ok=True)
    files_ = [
        ("index.js", wasm.script(NATIVE / "index.js", about).encode()),
        ("index.d.ts", train_interface.typescript(made.interface).encode()),
        ("package.json", wasm.package_json(made.interface.name, made.version, []).encode()),
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


def _own(*names: str) -> list[Path]:
    return [native_runtime.OWN / name for name in names]


@contextmanager
def _runtime(chain: Toolchain, options: Options, more: Sequence[Path]) -> Iterator[list[Path]]:
    """The objects of the runtime, which models without training also have, and of the training."""
    told = chain.smallest if options.small else ()
    with (
        native_runtime.objects(chain, told=told) as runtime,
        native_runtime.compiled(chain, more, (*told, f"-I{NATIVE}")) as own,
    ):
        yield [*own, *runtime]


def _parts(training: Training, output: Path, options: Options, form: str, scratch: Path) -> outputs.Parts:
    """form: "command", "shared" or "static"."""
    made = _compiled(training, output, options, form, scratch)
    interface, file, name = made.interface, made.file, made.interface.name

    def texts(library: str) -> list[tuple[str, str]]:
        is_shared = form == "shared"
        return [
            (f"{name}.h", train_interface.text_of_header(interface, made.version)),
            ("main.c", beside.training_example(interface, file)),
            ("CMakeLists.txt", beside.cmake(name, library, options.linked, is_shared)),
            (f"{name}.pc", beside.pkg_config(name, options.linked, is_shared, made.version)),
        ]

    of_command = [*(NATIVE / file for file in COMMAND), *_own(*_COMMAND)] if form == "command" else []
    sources = [*(NATIVE / file for file in (*LIBRARY, *FILES)), *_own(*_COMMON), *of_command]
    verbs = [function.verb for function in train_interface.functions(interface)]
    runtime = partial(_runtime, made.chain, options, sources)
    return outputs.Parts(name, verbs, made.weights, file, made.objects, made.chain, made.linking, runtime, texts)


@dataclass(frozen=True)
class _Compiled:
    """A training's own objects, without the runtime."""

    interface: TrainInterface
    weights: Weights
    file: str  # of the weights, or ""
    objects: list[Path]
    chain: Toolchain
    linking: list[str]
    version: str


def _compiled(training: Training, output: Path, options: Options, form: str, scratch: Path) -> _Compiled:
    """form: "command", which makes batches of arrays, "module", "shared" or "static"."""
    is_command = form in ("command", "module")  # without a header
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
    rows = train_interface.rows_of(interface) if form == "command" else None
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
    paths += outputs.weights_source(name, weights, file, options.platform, scratch)
    visible = f'-D{name.upper()}_API=__attribute__((visibility("default")))'
    flags = [*native_runtime.flags(), f"-I{NATIVE}", visible, *["-DBURN_PROGRAM"] * is_command]
    flags += chain.smallest if options.small else ()
    own, linking = customs.objects(everything, chain, scratch)
    return _Compiled(
        interface, weights, file, [*code, *chain.compile(paths, scratch, flags), *own], chain, linking, version
    )


def _interface(name: str, artefact: Artefact, part: Part) -> Interface:
    """The interface of a program without its state."""
    signature = artefact.signature
    visible = signature._replace(inputs=signature.inputs[: part.inputs], outputs=signature.outputs[: part.outputs])
    return Interface.of(name, visible)
