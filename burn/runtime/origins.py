"""Lines of the user's own code, which errors, profiles and reports name beside an op's module or node.

While a function is traced, an origin is relative to the function of the line: "net.py:Net.forward+3". It is part of a
program's identity, so a change elsewhere in the file does not recompile. `resolved` converts it to the current line,
"net.py:17", if this process has traced the function. An op's full name is its module or node with the origin in
parentheses: "blocks.0.attention (net.py:17)".
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple, TypeVar

_PACKAGE = str(Path(__file__).parents[1]) + "/"
_STANDARD = str(Path(os.__file__).parent) + "/"
_RELATIVE = r"\(([^()]+:[^()]+)\+(\d+)\)$"
_RESOLVED = r"\(([^()#]+:\d+)\)$"
_AMBIGUOUS = -1

_functions: dict[str, tuple[str, int]] = {}
"""By "net.py:Net.forward": the whole path, and the function's first line or _AMBIGUOUS."""


_boundaries: set[CodeType] = set()

Function = TypeVar("Function", bound=Callable[..., object])


def boundary(function: Function) -> Function:
    """Marks a function of burn's that runs the user's: lines of its own callers are no origins."""
    _boundaries.add(function.__code__)
    return function


class Line(NamedTuple):
    """A line of code that was running. owner: the class of the method's object, where Python does not name it."""

    code: CodeType
    number: int
    owner: str = ""

    @property
    def function(self) -> str:
        """As in "net.py:Net.forward"; remembers where it begins."""
        code = self.code
        name = getattr(code, "co_qualname", "") or ".".join(filter(None, (self.owner, code.co_name)))
        file = code.co_filename.rsplit("/", 1)[-1]
        function = f"{file}:{name}".replace("(", "<").replace(")", ">")
        here = (code.co_filename, code.co_firstlineno)
        known = _functions.setdefault(function, here)
        if known != here and known[0] != code.co_filename:
            _functions[function] = (known[0], _AMBIGUOUS)
        elif known != here:
            _functions[function] = here  # the file was edited and loaded again
        return function

    @property
    def offset(self) -> int:
        return self.number - self.code.co_firstlineno

    def __str__(self) -> str:
        """As in "net.py:17"."""
        return f"{self.code.co_filename.rsplit('/', 1)[-1]}:{self.number}"


def current_line() -> Line | None:
    """The innermost running line that is neither burn's nor the standard library's, within the function that is being traced;
    None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_internal(frame.f_code.co_filename):
        frame = None if frame.f_code in _boundaries else frame.f_back
    if frame is None:
        return None
    owner = type(frame.f_locals["self"]).__name__ if _needs_owner(frame) else ""
    return Line(frame.f_code, frame.f_lineno, owner)


def named(name: str, origin: str) -> str:
    """An op's full name."""
    if not origin:
        return name
    return f"{name} ({origin})" if name else f"({origin})"


def relative(function: str, offset: int) -> str:
    return f"{function}+{offset}"


def resolved(text: str) -> str:
    """A full name with its relative origin as a line, if the function was seen in this process."""
    match = re.search(_RELATIVE, text)
    if match is None:
        return text
    function, offset = match[1], int(match[2])
    file = function.partition(":")[0]
    first = _functions.get(function, ("", _AMBIGUOUS))[1]
    if first == _AMBIGUOUS:
        where = f"{function}, line {offset + 1} of it"
    else:
        where = f"{file}:{first + offset}"
    return f"{text[: match.start()]}({where})"


def line_of(name: str) -> str:
    """The line in an op's full name, or ''."""
    match = re.search(_RESOLVED, name)
    return match[1] if match else ""


@cache
def _is_internal(file: str) -> bool:
    own = file.startswith(_PACKAGE) or (file.startswith(_STANDARD) and "site-packages" not in file)
    return own or file.startswith("<frozen")


def _needs_owner(frame: FrameType) -> bool:
    return sys.version_info < (3, 11) and "self" in frame.f_code.co_varnames[:1] and "self" in frame.f_locals
