"""A program's generated code as named texts: `printed`.

The texts of a CPU are LLVM IR, one for each function, before optimisation. Those of a GPU are Triton's, one for each kernel with
the specialisation of its arguments, and the LLVM IR of the entry function. Neither needs the machine. The last
text is the rest of an artefact: constants, live ranges, kernels.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.target import TARGETS, compact
from burn.codegen.host.entry import Entry, EntryBuilder
from burn.codegen.host.object import compile_text
from burn.codegen.triton.backend import GPU
from burn.codegen.wgsl.backend import WebGPU
from burn.codegen.wgsl.launches import WGSLKernels
from burn.compiler import environment
from burn.dialect.constants import constant_array
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.passes import pipeline

GPUS = ("sm_80", "sm_90")
CPUS = {name: TARGETS[name] for name in ("generic", "avx2", "avx512", "vnni", "amx", "neon", "simd128")}
CPUS["compact"] = compact(TARGETS["avx2"])
WEBGPU = "webgpu"
DEVICES = (*CPUS, *GPUS, WEBGPU)

_FUNCTION = re.compile(r"^define [^\n]*?@([\w.$-]+)\(.*?^}$", re.MULTILINE | re.DOTALL)


def printed(program: Program, device: str) -> dict[str, str]:
    """The texts of a program for one of `DEVICES`, by name. Changes the program."""
    if device in CPUS:
        cpu = CPU(CPUS[device], as_text=True).session(program)
        pipeline.run(pipeline.parse(cpu.pipeline.text), program, environment(cpu))
        built = cpu.printer.build(program)
        described = (built.constants, built.live_ranges, built.buffers, built.records, built.sites)
        return {**_functions(built.code.decode()), "artefact": _artefact(program, *described)}
    host = CPU(TARGETS["avx2"], as_text=True)
    gpu = WebGPU(host) if device == WEBGPU else GPU(host, architecture=device).session(program)
    pipeline.run(pipeline.parse(gpu.pipeline.text), program, environment(gpu))
    with context():
        kernels = gpu.printer.kernels(program)
        entry: Entry = EntryBuilder(program, kernels, gpu.host.target.attributes).build()
        texts = _functions(compile_text(entry.functions).decode())
    for number, image in enumerate(kernels.images if isinstance(kernels, WGSLKernels) else ()):
        texts[f"{number} {image.name}"] = bytes(image.data).decode()
    for number, source in enumerate(() if isinstance(kernels, WGSLKernels) else kernels.sources):
        facts = {name: value for name, value in vars(source).items() if name not in ("text", "nodes")}
        texts[f"{number} {source.name}"] = f"# {facts}\n{source.text}"
    described = (entry.constants, entry.live_ranges, entry.buffers, entry.records, entry.sites)
    return {**texts, "artefact": _artefact(program, *described)}


def digests(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}


def _functions(text: str) -> dict[str, str]:
    """The functions of a module of LLVM's text by name, and all that stands between them."""
    found = {match[1]: match[0] for match in _FUNCTION.finditer(text)}
    return {**found, "module": _FUNCTION.sub("", text)}


def _artefact(program: Program, constants, live_ranges, buffers, records, sites) -> str:  # type: ignore[no-untyped-def]
    arrays = [constant_array(value, program.weights) for value in constants]
    lines = [f"constant {a.dtype}{a.shape} {hashlib.sha256(a.tobytes()).hexdigest()[:16]}" for a in arrays]
    lines += [f"live {range_}" for range_ in live_ranges] + [f"buffer {size}" for size in buffers]
    for r in records:
        lines.append(f"kernel {r.name} {r.kind} {r.sources} {r.flops} {r.bytes} {r.reads} {r.step}")
    return "\n".join([*lines, f"donated {sorted(program.donated.items())}", *(f"site {site}" for site in sites)])
