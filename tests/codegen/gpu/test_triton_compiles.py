"""Triton makes machine code of every kind of kernel, on a machine without a card: NVIDIA's and AMD's."""

from __future__ import annotations

import itertools
import linecache
from pathlib import Path
from typing import Any

import pytest

from burn.codegen.triton.backend import GPU
from burn.codegen.triton.kernels import KernelPrinter
from burn.codegen.triton.printed import Printed
from burn.codegen.triton.program import with_library
from burn.dialect.mlir import context
from burn.kernels.body import Kernel
from burn.kernels.builders import kernels
from burn.kernels.text import groups
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.passes.cases import Case, cases, read

CASES = cases(Path(__file__).parent / "cases")
POINTERS = {"float32": "*fp32", "float16": "*fp16", "int32": "*i32", "int64": "*i64", "float8_e5m2": "*u8"}
TARGETS = {
    "sm_80": ("cuda", 80, 32),
    "sm_90": ("cuda", 90, 32),
    "gfx942": ("hip", "gfx942", 64),
    "gfx1100": ("hip", "gfx1100", 32),
}
QUICK = ("sm_90", "gfx942")
_numbers = itertools.count()

triton = pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize("target", [t if t in QUICK else pytest.param(t, marks=pytest.mark.slow) for t in TARGETS])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_kinds(case: Case, target: str) -> None:
    program, printer = read(case), KernelPrinter()
    pipeline.run(pipeline.parse(case.passes), program, Environment(GPU()))
    with context():
        for group in groups(program.block):
            for call in kernels(group, GPU().wants):
                made = compiled(call.kernel, printer.print(call.kernel), target)
                assert len(made) > 500


def compiled(kernel: Kernel, printed: Printed, target: str) -> bytes:
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = _function(printed)
    signature: dict[str, Any] = {}
    for name, argument in zip(function.arg_names, printed.arguments, strict=False):
        pointer = argument.kind in ("buffer", "workspace")
        dtype = kernel.buffers[argument.number].dtype if pointer else ""
        signature[name] = POINTERS[dtype] if pointer else {"failure": "*i64", "size": "i32"}[argument.kind]
    constants = {"INT": tl.int32, **printed.constants}
    source = ASTSource(function, signature | dict.fromkeys(constants, "constexpr"), constants)
    made = triton.compile(source, target=GPUTarget(*TARGETS[target]), options={"num_warps": printed.warps})
    return made.asm["cubin" if TARGETS[target][0] == "cuda" else "hsaco"]


def _function(printed: Printed) -> Any:
    text, name = with_library([printed.text], "A kernel."), f"<compiled {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), names)
    return names[printed.name]
