"""The printed kernels of a program for a GPU, for tests that read or compile them."""

from __future__ import annotations

from burn.codegen.cpu.kernels import KernelPrinter
from burn.codegen.cpu.target import TARGETS
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.heuristics.preferences import preferences
from burn.codegen.triton.heuristics.sizes import hinted_sizes
from burn.codegen.triton.images import Machine, Source
from burn.codegen.triton.launches import GPUKernels
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.kernels.text import groups
from burn.passes import pipeline
from burn.passes.environment import Environment

HOPPER = Machine("cuda", 90, 32)

SHARED = 227 * 1024
"""Bytes of its shared memory that a program can have."""


USUAL = GPU()
"""The backend of a GPU that no option describes."""


def sources_of(
    program: Program,
    abilities: Abilities = USUAL_ABILITIES,
    passes: str = USUAL.pipeline.text,
    *,
    in_place: bool = False,
    backend: GPU = USUAL,
) -> list[Source]:
    """After these passes, usually those of a compilation for a GPU. in_place: outputs may reuse the memory of inputs. backend: of
    the passes."""
    pipeline.run(pipeline.parse(passes), program, Environment(backend.session(program)))
    with context():
        found = list(groups(program.block))
        written = {result for group in found for result in group.operation.results} if in_place else set()
        host = KernelPrinter(TARGETS["generic"])
        hints = hinted_sizes(program.size_hints)
        kernels = GPUKernels(host, preferences(hints, abilities), written, abilities, hints=hints)
        for group in found:
            kernels.group(group)
    assert not kernels.refused
    return kernels.sources


def warp_specialised(sources: list[Source]) -> list[Source]:
    """Those that are warp-specialised."""
    return [source for source in sources if "gl.warp_specialize(" in source.text]


def check_text(source: Source, machine: Machine = HOPPER) -> None:
    """Runs the front end of Triton's compiler on a kernel's text, which takes a few milliseconds. Raises its errors. It must not
    run after Triton's interpreter in a process: that one replaces functions of the language."""
    import triton.language as tl
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend

    from burn.codegen.triton.worker import _function

    function = _function(source)
    names = function.arg_names
    signature = dict(zip(names, source.types, strict=False)) | dict.fromkeys(names[len(source.types) :], "constexpr")
    constants = {(number,): value for number, value in source.constants}
    constants |= {(names.index("INT"),): tl.int64 if source.wide else tl.int32}
    constants |= {(names.index(name),): value for name, value in source.named}
    made = ASTSource(function, signature, constants, {})
    target = GPUTarget(machine.kind, machine.architecture, machine.warp)
    backend = make_backend(target)
    options = backend.parse_options({"num_warps": source.warps, "num_stages": 1})
    scope = ir.context()
    ir.load_dialects(scope)
    backend.load_dialects(scope)
    made.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), scope)
