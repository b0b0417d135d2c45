"""The WGSL functions that kernels call: `needed` gives those of a text, in an order in which they can be declared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from burn.codegen.cpu.elementary.coefficients import COS, EXP, SIN, SINH, TANH
from burn.codegen.wgsl import elementary

_ITEM = re.compile(r"^(?:fn|const|struct) (\w+)", re.MULTILINE)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")

ATOMIC = ("write_part", "report")
"""Functions whose kernels declare the heap's words as atomic."""

END_OF_HEAP = "// ----"
"""The declarations before this line are the heap's. A runtime whose heap has several pages replaces them by others."""

HALF = ("float_of_half", "half_of_float", "rounded_half")
FIRST_OF_HALF, END_OF_HALF = "// half", "// ---- half"
"""Conversions of float16 and the lines around them. A runtime may replace them by instructions (driver_wgpu_half.c)."""

PLAIN_HEAP = """@group(0) @binding(0) var<storage, read_write> heap: array<u32>;

fn read(at: u32) -> u32 { return heap[at]; }

fn write(at: u32, word: u32) { heap[at] = word; }"""

ATOMIC_HEAP = """@group(0) @binding(0) var<storage, read_write> heap: array<atomic<u32>>;

fn read(at: u32) -> u32 { return atomicLoad(&heap[at]); }

fn write(at: u32, word: u32) { atomicStore(&heap[at], word); }

// Keeps some bits of a word, and adds others.
fn change(at: u32, kept: u32, added: u32) {
  atomicAnd(&heap[at], kept);
  atomicOr(&heap[at], added);
}

// Writes a word if it is 0; true if it was.
fn claim(at: u32, word: u32) -> bool {
  loop {
    let old = atomicCompareExchangeWeak(&heap[at], 0u, word);
    if (old.exchanged) { return true; }
    if (old.old_value != 0u) { return false; }
  }
  return false;
}"""


@cache
def _functions() -> Mapping[str, str]:
    """Declarations by name: those of library.wgsl, then the elementary functions."""
    text = (Path(__file__).parent / "library.wgsl").read_text()
    for name, table in (("SIN", SIN), ("COS", COS), ("EXP", EXP), ("SINH", SINH), ("TANH", TANH)):
        for number, coefficient in enumerate(table["f32"]):
            text = re.sub(rf"\b{name}_{number}\b", f"({coefficient!r})", text)
    starts = [*_ITEM.finditer(text)]
    found: dict[str, str] = {}
    for match, following in zip(starts, [*starts[1:], None], strict=True):
        lines = text[match.start() : following.start() if following else None].split("\n")
        while lines and (not lines[-1].strip() or lines[-1].startswith("//")):  # the comment of the next declaration
            lines.pop()
        found[match[1]] = "\n".join(lines)
    return {**found, **elementary.library()}


def needed(text: str) -> Iterator[str]:
    """The declarations that a text uses, and the heap's."""
    library = _functions()
    names: set[str] = set()
    todo = [text]
    while todo:
        new = (set(_WORD.findall(todo.pop())) & library.keys()) - names
        names |= new
        todo += [library[name] for name in new]
    yield f"{ATOMIC_HEAP if names & set(ATOMIC) else PLAIN_HEAP}\n{END_OF_HEAP}"
    if names & set(HALF):
        yield "\n".join([FIRST_OF_HALF, *(library[name] for name in HALF), END_OF_HALF])
    yield from (declaration for name, declaration in library.items() if name in names - set(HALF))
