"""A model's C file: its tables (model.h), and the functions of its header, which hand them to the code that all models share."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from burn.deploy.header import functions, header
from burn.deploy.interface import Interface, Parameter
from burn.deploy.weights import Stored, Weights
from burn.runtime import sizes
from burn.runtime.abi import MESSAGES
from burn.runtime.artefact import Artefact, ValueSpec
from burn.runtime.dtypes import CODES, numpy_dtype

_ANY_DIM = "BURN_ANY_DIM"


@dataclass(frozen=True)
class Version:
    """The program for one kind of CPU, and of GPU if it has GPU code: its entry function's name, and the offsets of its constants
    and GPU kernels."""

    artefact: Artefact
    entry: str
    entries: Sequence[Stored]
    kernels: Sequence[int] = ()


@dataclass(frozen=True)
class Own:
    """Lines in front of a model's tables, and behind them."""

    before: tuple[str, ...]
    behind: tuple[str, ...] = ()


COMMON = Own(('#include "model.h"',))
"""The tables are handed to code that all models of a program share."""


def source(
    interface: Interface,
    versions: Sequence[Version],
    weights: Weights,
    file: str,
    checksum: int,
    target: str,
    own: Own = COMMON,
) -> str:
    """The C file. versions: the best first. file: the weights' name, "" where they are embedded. target: the platform's name.
    own: what of the runtime is part of the file."""
    parts = [
        *own.before,
        # the header's text, as a file might be called like one of the runtime's
        header(interface, versions[-1].artefact.burn_version),
        *facts(interface, versions, weights, file, checksum, about(interface, versions, weights, file, target)),
        *own.behind,
        _functions(interface),
    ]
    return "\n\n".join(parts) + "\n"


def facts(
    interface: Interface,
    versions: Sequence[Version],
    weights: Weights,
    file: str,
    checksum: int,
    about: str,
    declared: str = "static const burn_model_facts facts",
) -> list[str]:
    """The tables of a model, which end in its burn_model_facts, declared as `declared`."""
    name = interface.name
    return [
        *(f"extern int32_t {version.entry}(burn_run *run);" for version in versions),
        *([] if file or not weights.bytes else [f"extern const unsigned char {name}_weights[];"]),
        *([f"extern const unsigned char {name}_kernels[];"] if any(version.kernels for version in versions) else []),
        *_values("inputs", interface, interface.inputs),
        *_values("outputs", interface, interface.outputs),
        *(part for i, version in enumerate(versions) for part in _version_tables(version, f"_{i}", name)),
        table("burn_version", "versions", (_version(version, f"_{i}") for i, version in enumerate(versions))),
        table("char *const", "symbols", map(text, interface.symbols)),
        table("char *const", "messages", (text(MESSAGES.get(i, "")) for i in range(max(MESSAGES) + 1))),  # type: ignore[call-overload]
        f"static const char about[] =\n{long_text(about)};",
        _facts(interface, versions, weights, file, checksum, declared),
    ]


def module(artefact: Artefact, entries: Sequence[Stored]) -> str:
    """The C file of a module of WebAssembly (native/wasm): the program's tables, and where its constants lie. The texts of a
    program's GPU kernels are not in the module: the page passes their address, behind which they lie in order."""
    fields = _program(artefact, "burn_entry")
    parts = [
        '#include "module.h"',
        "extern int32_t burn_entry(burn_run *run);",
        *_program_tables(artefact, entries),
    ]
    if artefact.target.gpu:
        sizes = [memoryview(image.data).nbytes for image in artefact.images]
        offsets = ", ".join(f"INT64_C({at})" for at in itertools.accumulate(sizes, initial=0))
        parts += [
            *_gpu_tables(entries, artefact, [None] * len(sizes), ""),
            f"const int64_t burn_own_kernels[] = {{{offsets}}};",
        ]
        fields |= {
            "constant_bytes": "constant_bytes",
            "device_kernels": "device_kernels",
            "device_kernel_count": len(artefact.images),
        }
    program = "".join(f"        .{key} = {value},\n" for key, value in fields.items())
    parts.append(
        f"const burn_module burn_own_module = {{\n    .program = {{\n{program}    }},\n    .constants = constants,\n}};"
    )
    return "\n\n".join(parts) + "\n"


def about(interface: Interface, versions: Sequence[Version], weights: Weights, file: str, target: str) -> str:
    """The model for machines that ask: JSON."""
    artefact = versions[-1].artefact
    ran_on = [version.artefact.target for version in versions]

    return json.dumps(
        {
            "name": interface.name,
            "burn": artefact.burn_version,
            "target": target,
            "features": list(artefact.target.features),
            "gpus": list(dict.fromkeys(f"{t.gpu}:{t.architecture}" for t in ran_on if t.gpu)),
            "sizes": list(interface.symbols),
            "inputs": described(interface.inputs),
            "outputs": described(interface.outputs),
            "weights": {"bytes": weights.bytes, "file": file or None},
        },
        separators=(",", ":"),
    )


def described(parameters: Iterable[Parameter]) -> list[dict[str, object]]:
    """Inputs or outputs, for JSON."""
    return [{"name": p.spec.name, "dtype": p.spec.dtype, "dims": list(p.spec.dims)} for p in parameters]


def text(value: str) -> str:
    """A string of C's. Every byte that is not plain is written as three octal digits, which no digit behind it can join."""
    plain = (
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in value.encode("utf-8", "replace")
    )
    return '"' + "".join(plain) + '"'


def long_text(value: str, width: int = 100) -> str:
    return "\n".join(f"    {text(value[at : at + width])}" for at in range(0, len(value), width))


def table(type_: str, name: str, rows: Iterable[str]) -> str:
    """A table of C's, which has no empty ones."""
    lines = list(rows)
    return f"static const {type_} {name}[] = {{\n" + "".join(f"    {line},\n" for line in lines or ["{0}"]) + "};"


def _values(which: str, interface: Interface, parameters: Sequence[Parameter]) -> list[str]:
    """The functions that give sizes, the sizes, and the table of values."""
    parts: list[str] = []
    rows = []
    for number, parameter in enumerate(parameters):
        dims = []
        for axis, dim in enumerate(parameter.dims):
            if isinstance(dim, str):
                function = f"{which}_{number}_{axis}"
                parts.append(f"static int64_t {function}(const int64_t *s) {{ return {interface.expression(dim)}; }}")
                dims.append(f"{{0, {function}}}")
            else:
                dims.append(f"{{{'BURN_UNKNOWN_SIZE' if dim is None else f'INT64_C({dim})'}, 0}}")
        parts.append(f"static const burn_size {which}_{number}[] = {{{', '.join(dims) or '{0, 0}'}}};")
        spec = parameter.spec
        rows.append(
            f"{{{text(spec.name)}, {text(spec.type_text)}, {CODES.index(spec.dtype)}, {len(spec.dims)}, "
            f"{numpy_dtype(spec.dtype).itemsize}, {which}_{number}}}"
        )
    return [*parts, table("burn_value", which, rows)]


def _specs(inputs: Sequence[ValueSpec], random_state: bool, suffix: str) -> str:
    """The runtime's table of inputs, the random state behind those that are listed."""
    symbols: dict[str, int] = {}

    def pattern(dim: int | str) -> str:
        if isinstance(dim, int):
            return f"INT64_C({dim})"
        return str(-1 - symbols.setdefault(dim.strip(), len(symbols))) if sizes.parse(dim).is_symbol else _ANY_DIM

    lines, rows = [], []
    listed = [(spec.dtype, [pattern(dim) for dim in spec.dims]) for spec in inputs]
    for number, (dtype, dims) in enumerate([*listed, *([("uint64", ["2"])] if random_state else [])]):
        lines.append(f"static const int64_t input_dims{suffix}_{number}[] = {{{', '.join(dims) or '0'}}};")
        rows.append(
            f"{{{numpy_dtype(dtype).itemsize}, {len(dims)}, input_dims{suffix}_{number}, {{{CODES.index(dtype)}, 0}}}}"
        )
    return "\n".join([*lines, table("burn_input_spec", f"input_specs{suffix}", rows)])


def _output_specs(inputs: Sequence[ValueSpec], outputs: Sequence[ValueSpec]) -> Iterable[str]:
    donors = {spec.donated_to: index for index, spec in enumerate(inputs) if spec.donated_to is not None}
    for number, spec in enumerate(outputs):
        size, code = numpy_dtype(spec.dtype).itemsize, CODES.index(spec.dtype)
        yield f"{{{size}, {donors.get(number, -1)}, {{{code}, 0}}}}"


def _stored(stored: Stored) -> str:
    strings = -1 if stored.strings is None else stored.strings
    return f"{{INT64_C({stored.offset}), INT64_C({stored.bytes}), INT64_C({strings})}}"


def _version_tables(version: Version, suffix: str, name: str) -> list[str]:
    features = table("char *const", f"features{suffix}", [*map(text, version.artefact.target.features), "0"])
    addresses = [f"{name}_kernels + {at}" for at in version.kernels]
    gpus = _gpu_tables(version.entries, version.artefact, addresses, suffix) if version.artefact.target.gpu else []
    return [*_program_tables(version.artefact, version.entries, suffix), features, *gpus]


def _gpu_tables(
    entries: Sequence[Stored], artefact: Artefact, addresses: Sequence[str | None], suffix: str
) -> list[str]:
    """Tables of the GPU's data: the bytes of constants, except strings, which stay in host memory; and kernels, whose code is at
    these addresses. None: set when the program is made."""
    sent = (f"INT64_C({entry.bytes if entry.strings is None else -1})" for entry in entries)
    kernels = (
        f"{{{address or 0}, {memoryview(image.data).nbytes}, {text(image.name)}, {image.shared}, "
        f"{image.threads}, {int(image.early)}}}"
        for image, address in zip(artefact.images, addresses, strict=True)
    )
    return [
        table("int64_t", f"constant_bytes{suffix}", sent),
        table("burn_device_kernel", f"device_kernels{suffix}", kernels),
    ]


def _version(version: Version, suffix: str) -> str:
    target = version.artefact.target
    fields = _program(version.artefact, version.entry, suffix)
    rows = [f".features = features{suffix}", f".constants = constants{suffix}"]
    if target.gpu:
        rows += [f".gpu = {text(target.gpu)}", f".architecture = {text(target.architecture)}"]
        fields |= {
            "constant_bytes": f"constant_bytes{suffix}",
            "device_kernels": f"device_kernels{suffix}",
            "device_kernel_count": len(version.kernels),
        }
    program = "".join(f"            .{key} = {value},\n" for key, value in fields.items())
    return "{\n" + "".join(f"        {row},\n" for row in [*rows, f".program = {{\n{program}        }}"]) + "    }"


def _program_tables(artefact: Artefact, entries: Sequence[Stored], suffix: str = "") -> list[str]:
    """The tables of a program's description, and the offsets of its constants. The tables' names end in `suffix`."""
    inputs, outputs = artefact.signature.inputs, artefact.signature.outputs
    return [
        _specs(inputs, artefact.signature.random_state, suffix),
        table("burn_output_spec", f"output_specs{suffix}", _output_specs(inputs, outputs)),
        table(
            "burn_live_range", f"live_ranges{suffix}", (f"{{{first}, {last}}}" for first, last in artefact.live_ranges)
        ),
        table("burn_stored", f"constants{suffix}", map(_stored, entries)),
        table("char *const", f"sites{suffix}", map(text, artefact.sites)),
    ]


def _program(artefact: Artefact, entry: str, suffix: str = "") -> dict[str, object]:
    """The fields of its burn_program_info."""
    signature = artefact.signature
    return {
        "entry": entry,
        "inputs": len(signature.inputs) + signature.random_state,
        "outputs": len(signature.outputs),
        "constants": len(artefact.constants),
        "buffers": len(artefact.live_ranges),
        "kernels": len(artefact.kernels),
        "input_specs": f"input_specs{suffix}",
        "output_specs": f"output_specs{suffix}",
        "live_ranges": f"live_ranges{suffix}",
        "sites": f"sites{suffix}",
        "site_count": len(artefact.sites),
    }


def _facts(
    interface: Interface, versions: Sequence[Version], weights: Weights, file: str, checksum: int, declared: str
) -> str:
    fields = {
        "name": text(interface.name),
        "about": "about",
        "versions": "versions",
        "version_count": len(versions),
        "symbols": "symbols",
        "symbol_count": len(interface.symbols),
        "inputs": "inputs",
        "outputs": "outputs",
        "input_count": len(interface.inputs),
        "output_count": len(interface.outputs),
        "random_state": int(interface.random_state),
        "weights": "0" if file or not weights.bytes else f"{interface.name}_weights",
        "weights_file": text(file),
        "weights_bytes": f"INT64_C({weights.bytes})",
        "weights_checksum": f"UINT64_C({checksum})",
        "messages": "messages",
        "message_count": "sizeof messages / sizeof *messages",
        "open_gpu": "burn_gpu_open" if versions[0].artefact.target.gpu else "0",
    }
    lines = "".join(f"    .{key} = {value},\n" for key, value in fields.items())
    return f"{declared} = {{\n{lines}}};"


def _functions(interface: Interface) -> str:
    """The header's functions; with BURN_PROGRAM, those of the command's main."""
    bodies = {
        "create": "return burn_model_create(&facts, weights, (burn_model **)model);",
        "destroy": "burn_model_destroy((burn_model *)model);",
        "run_tensors": "return burn_model_run((burn_model *)model, inputs, outputs);",
        "free": "burn_model_free(tensor);",
        "error": "return burn_model_error();",
        "about": "return about;",
        "set_threads": "burn_pool_set_threads(threads);",
        "seed": "burn_model_seed((burn_model *)model, seed);",
        "run": "\n    ".join(
            [
                array("const int64_t", "sizes", interface.sizes),
                array("const void *const", "burn_in", [p.name for p in interface.inputs]),
                array("void *const", "burn_out", [p.name for p in interface.outputs]),
                "return burn_model_call((burn_model *)model, sizes, burn_in, burn_out);",
            ]
        ),
        "output_dims": "\n    ".join(
            [array("const int64_t", "sizes", interface.sizes), "return burn_model_dims(&facts, sizes, number, dims);"]
        ),
    }
    made = [f"{f.prototype} {{\n    {bodies[f.verb]}\n}}" for f in functions(interface)]
    program = "#ifdef BURN_PROGRAM\nconst burn_model_facts *const burn_main_facts = &facts;\n#endif"
    return "\n\n".join([*made, program])


def array(type_: str, name: str, values: Sequence[str]) -> str:
    return f"{type_} {name}[] = {{{', '.join(values) or '0'}}};"
