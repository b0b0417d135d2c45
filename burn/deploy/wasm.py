"""A program as a module of WebAssembly in an npm package: the module, its weights, and an ES module with types that loads both.

The module contains the portable runtime and the program; the weights are loaded separately. The file
native/wasm/module.c is the interface for JavaScript. The file native/wasm/index.js is the same for every model, except for one
object that describes it.

With threads there is a second module, whose memory workers share (native/wasm/worker.js); index.js uses it if memory can be
shared.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from burn import toolchain
from burn.codegen.cpu.target import Target
from burn.compiler import compile_program
from burn.deploy import customs, native_runtime, tables
from burn.deploy import weights as stored
from burn.deploy.interface import Interface
from burn.deploy.report import Report
from burn.dialect.program import Program
from burn.errors import CompileError, Problem
from burn.options import OFF
from burn.options import Options as CompileOptions
from burn.runtime import files
from burn.runtime.abi import MESSAGES
from burn.runtime.artefact import Artefact, Buffer, ValueSpec
from burn.toolchain import Toolchain, platforms

NATIVE = Path(__file__).parent / "native" / "wasm"
ARRAYS = {
    **{
        f"{sign}int{bits}": f"{letter}nt{bits}Array"
        for sign, letter in (("", "I"), ("u", "Ui"))
        for bits in (8, 16, 32)
    },
    "float64": "Float64Array",
    "float32": "Float32Array",
    "float16": "Uint16Array",
    "bfloat16": "Uint16Array",
    "int64": "BigInt64Array",
    "uint64": "BigUint64Array",
    "int4": "Int8Array",
    "int2": "Int8Array",
}
"""How JavaScript holds elements, as in index.js; those that are not here are bytes."""


_REFUSED = {
    "burn_lib_image_decode": "it decodes image files, which Python does for it",
    "burn_lib_debug_call": "burn.debug.callback calls a Python function",
    "burn_lib_collective": "its collectives need the processes of burn.distributed",
    "burn_lib_debug_print": "burn.debug.print writes to standard error, which a module does not have",
}
"""Functions of the runtime that need a process around them."""


def package(
    program: Program,
    output: Path,
    name: str,
    target: Target,
    chain: Toolchain,
    told: Callable[[Report], None] | None = None,
) -> list[Path]:
    """Writes the folder of the package; gives its files, the ES module first. Raises CompileError."""
    options = CompileOptions(target, as_text=True, autotune=OFF)
    artefact, interface = compiled(program, name, options, told)
    weights = stored.layout(artefact.constants, as_file=True)
    single = toolchain.find(platforms.find("wasm32"))
    module = _module(artefact, weights, single)
    threaded = _module(artefact, weights, chain) if chain.platform != single.platform else b""
    about = _about(artefact, len(module), len(threaded), weights.bytes)
    text = script(NATIVE / "index.js", about)
    more = [*["model-threads.wasm", "worker.js"] * bool(threaded), "weights.safetensors"]
    written = [
        ("index.js", [text.encode()]),
        ("index.d.ts", [_types(artefact).encode()]),
        ("package.json", [package_json(interface.name, artefact.burn_version, more).encode()]),
        ("model.wasm", [module]),
        *(
            [("model-threads.wasm", [threaded]), ("worker.js", [(NATIVE / "worker.js").read_bytes()])]
            if threaded
            else []
        ),
        *([("weights.safetensors", stored.chunks(weights))] if weights.bytes else []),
    ]
    return write(output, written)


def write(folder: Path, written: Sequence[tuple[str, Iterable[Buffer]]]) -> list[Path]:
    """Writes files, each with its pieces; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, pieces in written:
        with files.whole(folder / file) as opened:
            for piece in pieces:
                opened.write(piece)
    return [folder / file for file, _ in written]


def compiled(
    program: Program, name: str, options: CompileOptions, told: Callable[[Report], None] | None
) -> tuple[Artefact, Interface]:
    """A program for a module of WebAssembly. Raises CompileError."""
    artefact = compile_program(program, options).resolved()
    check(artefact)
    interface = Interface.of(name, artefact.signature)
    if told:
        told(Report.of(artefact, sum(constant.bytes for constant in artefact.constants)))
    return artefact, interface


def check(artefact: Artefact) -> None:
    """Raises CompileError for a program that needs a process around it."""
    customs.refuse_python(artefact)
    asked = set(re.findall(r"@(burn_lib_\w+)\(", bytes(artefact.code).decode()))
    if problems := [Problem(why, hint="burn.load runs it") for function, why in _REFUSED.items() if function in asked]:
        raise CompileError("this model does not run in WebAssembly", problems)


def messages() -> dict[int, str]:
    """The texts of failures, by the runtime's status."""
    return {int(status): text for status, text in MESSAGES.items()}


def script(template: Path, about: Mapping[str, object]) -> str:
    """An ES module for JavaScript. about: the object that describes the model."""
    text = template.read_text().replace("// @COMMON@\n", (NATIVE / "common.js").read_text())
    return text.replace('"@MODEL@"', json.dumps(about, separators=(",", ":")))


def _module(artefact: Artefact, weights: stored.Weights, chain: Toolchain) -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "code.ll").write_bytes(artefact.code)
        (folder / "tables.c").write_text(tables.module(artefact, weights.entries))
        own = [folder / "code.ll", folder / "tables.c"]
        made = chain.compile(own, folder, (f"-I{NATIVE}", "-Wno-override-module", *native_runtime.flags()))
        own, _ = customs.objects([artefact], chain, folder)
        with native_runtime.objects(chain, more=[NATIVE / "module.c", NATIVE / "values.c"]) as runtime:
            chain.module([*made, *own, *runtime], folder / "model.wasm")
        return (folder / "model.wasm").read_bytes()


def _about(artefact: Artefact, module_bytes: int, threaded_bytes: int, weights_bytes: int) -> dict[str, object]:
    return {
        "inputs": described(artefact.signature.inputs),
        "outputs": described(artefact.signature.outputs),
        "random": artefact.signature.random_state,
        "moduleBytes": module_bytes,
        "threadedBytes": threaded_bytes,
        "memoryPages": [platforms.SHARED_PAGES, platforms.MOST_SHARED_PAGES],
        "weightsBytes": weights_bytes,
        "sites": list(artefact.sites),
        "messages": messages(),
    }


def described(specs: Sequence[ValueSpec]) -> list[dict[str, object]]:
    """Inputs or outputs, for JavaScript."""
    return [{"name": s.name, "dtype": s.dtype, "dims": list(s.dims), "type": s.type_text} for s in specs]


def package_json(name: str, version: str, more: Sequence[str]) -> str:
    """The description of the package for npm. more: its files besides the module and its types."""
    plain = re.sub(r"[^a-z0-9._~-]+", "-", name.lower()).lstrip("._") or "model"
    about = {
        "name": plain,
        "version": "1.0.0",
        "description": f"{name}, compiled by burn {version}",
        "type": "module",
        "main": "index.js",
        "types": "index.d.ts",
        "exports": {".": {"types": "./index.d.ts", "default": "./index.js"}, "./*": "./*"},
        "files": ["index.js", "index.d.ts", "model.wasm", *more],
        "sideEffects": False,
    }
    return json.dumps(about, indent=2) + "\n"


def fields(specs: Sequence[ValueSpec], form: str) -> str:
    """Members of an interface of TypeScript. form: their type, of the name of an array class."""
    return "".join(
        f"  /** {spec.type_text} */\n  {json.dumps(spec.name)}: {form.format(ARRAYS.get(spec.dtype, 'Uint8Array'))};\n"
        for spec in specs
    )


def _types(artefact: Artefact) -> str:
    """The types of index.js for TypeScript."""

    return f"""/** A tensor: elements in row-major order, and sizes. */
export interface Tensor<Data> {{
  data: Data;
  dims: number[];
}}

export interface Inputs {{
{fields(artefact.signature.inputs, "{0} | Tensor<{0}>")}}}

export interface Outputs {{
{fields(artefact.signature.outputs, "Tensor<{0}>")}}}

/** An input or output: a dim is a size, or the name of one that a call chooses. */
export interface Value {{
  name: string;
  dtype: string;
  dims: (number | string)[];
  type: string;
}}

export interface Model {{
  readonly inputs: Value[];
  readonly outputs: Value[];
  /** The seed of the random numbers that the model draws, if it does. */
  seed: bigint | number;
  /** How many threads there are, the caller's among them. */
  readonly threads: number;
  /** One inference. An input is a typed array, or a tensor where its sizes cannot be told from its length. Throws an Error. */
  run(inputs: Inputs): Outputs;
  /** Ends the threads. The model cannot be run any more. */
  close(): void;
}}

export interface Options {{
  /** Is told how many bytes of both files have been read, and how many there are. */
  progress?: (loaded: number, total: number) => void;
  /** How many threads are wanted; by default as many as there are cores. One where memory cannot be shared, or the package has no
   * module with threads. */
  threads?: number;
}}

/** Loads the model. base: the folder of its files, this module's by default. */
export function load(base?: string | URL, options?: Options): Promise<Model>;
"""
