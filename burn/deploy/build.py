"""From a program to files that run without Python. Enter at `build`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from burn import toolchain
from burn.compiler import compile_program, listing
from burn.deploy import bare, beside, customs, header, native_runtime, outputs, small, tables, wasm, webgpu
from burn.deploy import gpus as gpus_
from burn.deploy import weights as stored
from burn.deploy.embedded import embedded
from burn.deploy.interface import Interface, model_name
from burn.deploy.linking import (
    ENTRY,
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
from burn.dialect.program import Program
from burn.errors import CompileError
from burn.runtime import _native, package, registry, signing
from burn.runtime.artefact import Artefact
from burn.runtime.device import Device
from burn.runtime.package import COMPILED
from burn.toolchain import platforms

_LOADING = ("x86_64-linux", "aarch64-linux")
"""Where burn.load runs compiled programs."""
_API = 'API=__attribute__((visibility("default")))'


@dataclass(frozen=True)
class Kind:
    """One kind of output: how it is made (program, path, options), and what it is."""

    make: Callable[[Program, Path, Options], list[Path]]
    what: str
    suffix: str = ""  # of the file; where a path ends in it, this kind is meant
    is_folder: bool = False

    def check_output(self, output: Path) -> None:
        """Raises CompileError for an existing file or folder that must not be overwritten."""
        if output.exists() and output.is_dir() != self.is_folder:
            there, made = ("a folder", "one file") if output.is_dir() else ("a file", "a folder")
            raise CompileError(f"{output} is {there}", [f"what is made is {made}: {self.what}"])


def build(kind: str, program: Program, output: Path, options: Options | None = None) -> list[Path]:
    """Writes a program as one of `KINDS`; gives the files, the main one first. Raises CompileError."""
    KINDS[kind].check_output(output)
    return KINDS[kind].make(program, output, options or Options(platforms.find()))


def kind_of(output: Path) -> str:
    """The output kind of a path's suffix; default: a command."""
    return next((name for name, kind in KINDS.items() if kind.suffix and output.suffix == kind.suffix), "exe")


# ---- texts and single files ------------------------------------------------------------------------------------------


def _object(program: Program, output: Path, options: Options) -> list[Path]:
    name = model_name(options.name or output.stem)
    artefact = compile_program(program, options.compilation(options.target)).resolved()
    customs.refuse_all(artefact, "an object file")
    with tempfile.TemporaryDirectory() as scratch:
        made = code_of(artefact, f"{name}_entry", options, Path(scratch))
        return written(output, made.read_bytes())


def _llvm(program: Program, output: Path, options: Options) -> list[Path]:
    return written(output, bytes(compile_program(program, options.compilation(options.target, as_text=True)).code))


def _listing(kind: str, program: Program, output: Path, options: Options) -> list[Path]:
    """The program's code as text, in the language of the back end for a kind of device."""
    asked = replace(options.compilation(options.target), device=Device(kind), architecture=registry.PORTABLE)
    return written(output, listing(program, asked).encode() + b"\n")


def _package(program: Program, output: Path, options: Options) -> list[Path]:
    if output.suffix != COMPILED:
        raise CompileError(f"{output} is no name for a package", [f"it ends in {COMPILED}"])
    if options.key:
        signing.private_key(options.key)  # before the work
    programs = [made for one in options.each_platform() for made in _versions(program, one)]
    package.save(programs, output, options.key)
    return [output]


def _versions(program: Program, options: Options) -> list[Artefact]:
    """The programs of a package for burn.load, with code for its loader."""
    name = options.platform.name
    if name not in _LOADING:
        raise CompileError(f"there are no packages for {name}", [f"burn.load runs on {', '.join(_LOADING)}"])
    kinds = [(gpu, target) for gpu in options.gpus or (None,) for target in options.targets]
    made = [
        compiled(program.copy(), gpu, options.compilation(target, options.is_foreign, gpu)) for gpu, target in kinds
    ]
    if not options.is_foreign:
        return made
    with tempfile.TemporaryDirectory() as scratch:
        return [
            replace(
                customs.for_platform(version, options.platform),
                code=code_of(version, ENTRY, options, Path(scratch)).read_bytes(),
            )
            for version in made
        ]


# ---- binaries --------------------------------------------------------------------------------------------------------


def _exe(program: Program, output: Path, options: Options) -> list[Path]:
    return outputs.command(partial(_parts, program, output, options, "command"), output, options)


def _shared(program: Program, output: Path, options: Options) -> list[Path]:
    return outputs.shared(partial(_parts, program, output, options, "shared"), output, options)


def _static(program: Program, output: Path, options: Options) -> list[Path]:
    if options.linked.is_bare:
        return _bare(program, output, options)
    return outputs.static(partial(_parts, program, output, options, "static"), output, options)


def _bare(program: Program, output: Path, options: Options) -> list[Path]:
    """A folder with a library for a machine without an operating system, and its header."""
    target = options.target
    assert target is not None, "another machine's"
    chain = toolchain.find(options.platform)
    made = bare.Bare.of(program, options.name or output.stem, target, toolchain.find(platforms.find()))
    with tempfile.TemporaryDirectory() as scratch:
        library = f"lib{made.interface.name}.a"
        parts = made.objects(chain, Path(scratch))
        chain.archive(parts, Path(scratch) / library)
        if options.told:
            chain.image(parts, Path(scratch) / "image", f"{made.interface.name}_run")
            options.told(made.report(Path(scratch) / "image"))
        output.mkdir(parents=True, exist_ok=True)
        archive = placed(Path(scratch) / library, output / library)
    return [archive, *written(output / f"{made.interface.name}.h", made.header().encode())]


def _parts(program: Program, output: Path, options: Options, form: str, scratch: Path) -> outputs.Parts:
    """form: "command", "shared" or "static"."""
    is_command, is_static = form == "command", form == "static"
    chain = toolchain.find(options.linked)  # before the work, as it may not be there
    as_text = options.as_text or (options.small and chain.takes_triple)  # whose LLVM makes smaller code than the engine
    kinds = [(gpu, target) for gpu in options.gpus or (None,) for target in options.targets]
    made = [compiled(program.copy(), gpu, options.compilation(target, as_text, gpu)) for gpu, target in kinds]
    artefact = made[-1]
    interface = Interface.of(options.name or output.stem, artefact.signature)
    asked = called(artefact)
    refuse_python(asked)
    customs.refuse_python(artefact)
    name = interface.name
    (gpu, target), *others = kinds
    is_whole = not (gpu or others or is_command) and small.runs(artefact, target, asked)
    interface = replace(interface, is_small=is_whole)
    constants, numbers = merged([version.constants for version in made])
    if options.told:
        options.told(Report.of(artefact, sum(constant.bytes for constant in constants)))
    beside_it = f"{output.stem if is_command else name}.safetensors"
    file = beside_it if options.beside and constants else ""
    weights = stored.layout(constants, as_file=bool(file))
    images = gpus_.images(made)
    versions = [
        tables.Version(version, entry_name(name, *kind), [weights.entries[number] for number in used], kernels)
        for version, kind, used, kernels in zip(made, kinds, numbers, images.offsets, strict=True)
    ]
    calls = partial(small.renamed, name=name) if is_whole else str
    code = [code_of(version.artefact, version.entry, options, scratch, calls) for version in versions]
    sources = [scratch / f"{name}_model.c"]
    checksum = _native.checksum(weights.joined()) if file else 0
    own = small.own(versions[0], asked) if is_whole else tables.COMMON
    sources[0].write_text(tables.source(interface, versions, weights, file, checksum, options.platform.name, own))
    sources += outputs.weights_source(name, weights, file, options.platform, scratch)
    if images.pieces:
        sources.append(embedded(f"{name}_kernels", images.pieces, options.platform, scratch))
    if is_whole:
        sources.append(small.HALF_SOURCE)
    smaller = chain.smallest if options.small else ()
    flags = [*native_runtime.flags(), f"-D{name.upper()}_{_API}", *["-DBURN_PROGRAM"] * is_command, *smaller]
    flags += [*small.flags(name), *["-DBURN_STATIC"] * is_static] if is_whole else []
    own, linking = customs.objects(made, chain, scratch)
    made_of = [*code, *chain.compile(sources, scratch, flags), *own]
    version = artefact.burn_version

    def texts(library: str) -> list[tuple[str, str]]:
        headers = [
            (f"{name}.h", header.header(interface, version)),
            (f"{name}.hpp", header.cpp_header(interface, version)),
        ]
        return [*headers, *beside.files(interface, library, options.linked, not is_static, file, version)]

    runtime = partial(native_runtime.objects, chain, command=is_command, gpus=bool(options.gpus), told=smaller)
    whole = is_whole and not is_command  # the runtime is a part of the model's own file
    verbs = [function.verb for function in header.functions(interface)]
    return outputs.Parts(
        name, verbs, weights, file, made_of, chain, linking, partial(nullcontext, []) if whole else runtime, texts
    )


# ---- other outputs ---------------------------------------------------------------------------------------------------


def _wasm(program: Program, output: Path, options: Options) -> list[Path]:
    target = options.target
    if options.platform.architecture != "wasm32" or target is None:
        raise CompileError(f"there are no modules of WebAssembly for {options.platform.name}", ["--target wasm32"])
    usual = output.stem if output.suffix == KINDS["wasm"].suffix else output.name
    name, chain = options.name or usual, toolchain.find(options.platform)
    if not options.gpus:
        return wasm.package(program, output, name, target, chain, options.told)
    (gpu, *more) = options.gpus
    if more or gpu.kind != webgpu.KIND:
        named = ", ".join(map(str, options.gpus))
        raise CompileError(f"there are no modules of WebAssembly for {named}", [f"--target {webgpu.KIND}:webgpu"])
    return webgpu.package(program, output, name, target, chain, gpu, options.told)


def _listings() -> dict[str, Kind]:
    """The listings that back ends make, by the name of their language."""
    return {
        language: Kind(partial(_listing, kind), registry.entry(kind).about, registry.entry(kind).suffix)
        for language, kind in registry.languages().items()
    }


KINDS = {
    "exe": Kind(_exe, "a command"),
    "shared": Kind(_shared, "a folder with a shared library, its headers and an example", ".so", is_folder=True),
    "static": Kind(_static, "a folder with a static library, its headers and an example", ".a", is_folder=True),
    "wasm": Kind(_wasm, "an npm package with a module of WebAssembly, for browsers and Node", ".wasm", is_folder=True),
    "object": Kind(_object, "the compiled program as a relocatable object, without its runtime and weights", ".o"),
    "llvm": Kind(_llvm, "the program as LLVM's text", ".ll"),
    **_listings(),
    "package": Kind(_package, "one file that burn.load runs without compiling", COMPILED),
}
"""Every kind of output, by its name in --emit."""
