"""Locations in MLIR's syntax: of them an error needs the names that JAX gave, and the innermost line of source.

loc("jit(f)/dot_general"("/home/user/model.py":12:4 to :18))
loc(callsite(#loc3 at #loc7))
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from burn.importers.stablehlo.syntax.module import UNKNOWN, Location

_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d{1,9}):\d+')
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ALIAS = re.compile(r"#[\w$.-]+")
_TOKEN = re.compile(rf"{_FILE.pattern}|{_NAME.pattern}|{_ALIAS.pattern}")
_MOST = 64
"""Aliases that one location refers to."""


def read_location(text: str, aliases: Mapping[str, str]) -> Location:
    """The location that a text (or an alias) stands for. The first file is the innermost; the location of its call follows."""
    names: list[str] = []
    pending, seen = [text], 0
    while pending and seen < _MOST:
        seen += 1
        part = pending.pop()
        if part.startswith("#"):
            pending.append(aliases.get(part, ""))
            continue
        following: list[str] = []
        for token in _TOKEN.finditer(part):
            if token[1] is not None:
                if following:  # an alias comes first
                    following.append(f"loc({token.group()})")
                    continue
                return Location(tuple(names), token[1], int(token[2]))
            if token[3] is not None:
                names.append(token[3].rstrip(":"))
            else:
                following.append(token.group())
        pending += reversed(following)
    return Location(tuple(names)) if names else UNKNOWN
