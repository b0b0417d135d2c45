"""A long entry function as several, called one after the other: LLVM's time grows faster than the length of a function.

Values that one part defines and a later one uses are stored in a frame on the function's stack. A part returns the run's
status; the next part is called only if it is OK.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from burn.codegen.host.emit import PTR, Function, Value

LINES = 2000
"""A part ends at the first possible position after this many lines."""

SLOT = 2
"""Words of the frame for one value: a number and whether it has overflowed take both."""

_NAME = re.compile(r"%\w+")


def divide(code: Function, close: Callable[[Function], None], end: str) -> list[Function]:
    """The function, and its later parts if it is long. close: prints the end of each; end: the label of that end."""
    first, *others = _pieces(code)
    if not others:
        close(code)
        return [code]
    named = [_names(lines) for lines in (first, *others)]
    home: dict[str, int] = dict.fromkeys(_names(code.head), 0)
    for number, names in enumerate(named):
        for name in names:
            home.setdefault(name, number)
    crossing = [name for number, names in enumerate(named) for name in names if home[name] < number]
    slots = {name: index for index, name in enumerate(n for n in dict.fromkeys(crossing) if n in code.types)}
    frame = code.alloca(SLOT * len(slots), "i64")

    def store(part: Function, number: int, frame: Value) -> None:
        for name, index in slots.items():
            if home[name] == number:
                address = part.gep(frame, SLOT * index, "i64")
                part.line(f"llvm.store {name}, {address} {{alignment = 8 : i64}} : {code.types[name]}, {PTR}")

    parts = []
    for number, (lines, names) in enumerate(zip(others, named[1:], strict=True), 1):
        part = code.part(f"{code.name}_{number}", [("run", PTR), ("frame", PTR)], names)
        framed = part.arguments[1]
        for name in names:
            if name in slots and home[name] < number:
                address = part.gep(framed, SLOT * slots[name], "i64")
                part.line(f"{name} = llvm.load {address} {{alignment = 8 : i64}} : {PTR} -> {code.types[name]}")
        part.lines += lines
        store(part, number, framed)
        close(part)
        parts.append(part)
    code.lines = first
    store(code, 0, frame)
    for part in parts:
        status = code.call(part.name, [code.arguments[0], frame], "i32")
        assert status is not None
        code.leave_if(code.cmp("ne", status, code.const(0, "i32")), end)
    close(code)
    return [code, *parts]


def _pieces(code: Function) -> list[list[str]]:
    """The lines of each part."""
    pieces, start = [], 0
    for cut in code.cuts:
        if cut - start >= LINES:
            pieces.append(code.lines[start:cut])
            start = cut
    return [*pieces, code.lines[start:]]


def _names(lines: Iterable[str]) -> dict[str, None]:
    """The names in some lines, in order."""
    return dict.fromkeys(name for line in lines for name in _NAME.findall(line))
