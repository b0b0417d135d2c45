"""Kernels are rewritten by the kinds of their fields: no rewrite has a branch for each class of kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import pytest

import burn
from burn.compiler import environment
from burn.dialect.dims import LoopVar
from burn.dialect.mlir import context
from burn.kernels.body import Kernel
from burn.kernels.builders import kernels
from burn.kernels.fields import FieldKind, field_kinds
from burn.kernels.rewrite import kernel_dims, kernel_loops, map_kernel, used_buffers
from burn.kernels.text import call_text, groups
from burn.passes import pipeline
from burn.tracing.trace import trace

ROOT = Path(__file__).parents[2]
KINDS = get_args(Kernel)


def everything(x: burn.Tensor, q: burn.Tensor) -> Any:
    attended = burn.ops.attention(q, q, q, None, scale=0.5)
    slopes = burn.grad(lambda v: (burn.ops.attention(v, v, v, None, scale=0.5) ** 2).sum())(q)
    return burn.softmax(x, axis=-1) @ x.T, burn.cumsum(x, axis=0), attended, slopes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_has_a_kind(kind: type) -> None:
    found = dict(field_kinds(kind))
    assert list(found) == [field.name for field in fields(kind)]
    loops = (FieldKind.LOOP, FieldKind.LOOPS)
    assert set(kind.MERGED) <= {name for name, each in found.items() if each in loops}


def test_a_field_without_a_kind_is_refused() -> None:
    @dataclass(frozen=True)
    class Odd:
        table: dict[str, int]

    with pytest.raises(TypeError, match=r"Odd: a field.s annotation says its kind.*dict\[str, int\]"):
        field_kinds(Odd)  # type: ignore[arg-type]


def test_rewrites_reach_every_part() -> None:
    program = trace(everything, {"x": "float32[n, 4]", "q": "float32[1, 2, n, 4]"})
    kept = "attention+attention_forward+attention_backward"
    pipeline.run(pipeline.parse(f"decompose{{keep={kept}}},fuse,release"), program, environment())
    seen: set[type] = set()
    with context():
        for group in groups(program.block):
            for call in kernels(group, environment().preferences):
                kernel = call.kernel
                seen.add(type(kernel))
                same = map_kernel(kernel, lambda d: d, lambda loops: loops)
                assert type(same) is type(kernel) and kernel_loops(same) == kernel_loops(kernel)
                assert kernel_dims(same) == kernel_dims(kernel) and used_buffers(same) == used_buffers(kernel)
                renamed = {v: LoopVar(f"z{i}", v.extent) for i, v in enumerate(kernel_loops(kernel))}
                other = map_kernel(
                    kernel, lambda d: d, lambda loops, r=renamed: tuple(r[v] for v in loops), lambda number: number + 7
                )
                assert {v.name[0] for v in kernel_loops(other)} <= {"z"}
                assert used_buffers(other) == {number + 7 for number in used_buffers(kernel)}
                assert call_text(call)
    assert seen == set(KINDS)


def test_five_files_distinguish_kernels() -> None:
    """The interpreter, the listing, and the printers of CPUs, Triton and WGSL."""
    files = [*(ROOT / "burn").rglob("*.py")]
    counted = {
        str(f.relative_to(ROOT)): len(re.findall(r"case AttentionGradientKernel\(", f.read_text())) for f in files
    }
    assert {file: count for file, count in counted.items() if count} == {
        "burn/kernels/interpret.py": 1,
        "burn/kernels/text.py": 1,
        "burn/codegen/cpu/kernels.py": 1,
        "burn/codegen/triton/kernels.py": 1,
        "burn/codegen/wgsl/kernels.py": 1,
    }
