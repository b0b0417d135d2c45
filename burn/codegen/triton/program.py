"""The kernels of a fused program as one Python module for Triton: `module_text`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from burn.codegen.triton.kernels import KernelPrinter
from burn.dialect.mlir import context
from burn.dialect.op import full_name
from burn.dialect.program import Program
from burn.kernels.builders import kernels
from burn.kernels.preferences import Preferences
from burn.kernels.text import groups

HEAD = '''"""{about}"""

import triton
import triton.language as tl
from triton.language.extra import libdevice
'''


GLUON = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
"""
"""Imports for kernels in Gluon."""

LIBRARIES = (
    "library.py",
    "hopper/attention_library.py",
    "hopper/matmul_library.py",
    "hopper/weight_gradient_library.py",
)


def module_text(program: Program, preferences: Preferences, printer: KernelPrinter) -> str:
    """Every kernel of the program's groups, each after a comment with its source nodes, with these lowering preferences. Raises
    CompileError for a kernel that Triton cannot express."""
    origins: dict[str, dict[str, None]] = {}
    with context():
        for group in groups(program.block):
            nodes = [name for op in group.ops if (name := full_name(op))]
            calls = kernels(group, preferences)
            together = group.kind == "foreach"
            printed = (
                [t.printed for t in printer.together(calls)] if together else [printer.print(c.kernel) for c in calls]
            )
            for each in printed:
                origins.setdefault(each.name, {}).update(dict.fromkeys(nodes))
    texts = [f"{_comment(origins[name])}{p.text}" for name, p in printer.functions.items()]
    return with_library(texts, f"{len(texts)} kernels, each under the nodes that it was made for.")


def with_library(functions: Iterable[str], about: str) -> str:
    """A module of kernels and the library's functions that they use."""
    texts = list(functions)
    needed = "\n\n\n".join(_helpers("\n".join(texts)))
    head = HEAD.format(about=about) + (GLUON if any("@gluon.jit" in text for text in texts) else "")
    return "\n\n".join([head, *([needed + "\n"] if needed else []), *(f"{t}\n" for t in texts)])


def _comment(nodes: Iterable[str]) -> str:
    names = ", ".join(nodes)
    return f"# from {names}\n" if names else ""


@cache
def _library() -> dict[str, str]:
    """The functions of the libraries by name."""
    found = {}
    for source in ((Path(__file__).parent / name).read_text() for name in LIBRARIES):
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = "\n".join(lines[node.decorator_list[0].lineno - 1 : node.end_lineno])
    return found


def _helpers(text: str) -> Iterator[str]:
    """The library's functions that a text calls, and those that they call, in the library's order."""
    library = _library()
    needed: set[str] = set()
    todo = [text]
    while todo:
        words = set(re.findall(r"\b(?<!\.)[a-z_]\w*\b", todo.pop()))
        new = (words & library.keys()) - needed
        needed |= new
        todo += [library[name] for name in new]
    return (source for name, source in library.items() if name in needed)
