"""Locations of ops: the source node's name, and the line of user code behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from burn.dialect.mlir import ir
from burn.runtime import origins

PROGRAM = "program"
"""The location name of ops without a module or node."""

AGAIN = "(again)"
"""Suffix of a source node's name in the location of an op that recomputes a value."""


def source_name(operation: ir.Operation | ir.OpView) -> str:
    """The source node of an op: its location's name."""
    return location_name(operation.location)


_lines: ContextVar[bool] = ContextVar("lines", default=False)


@contextmanager
def user_lines() -> Iterator[None]:
    """Ops built inside get the current line of user code as location, unless they already have a line."""
    token = _lines.set(True)
    try:
        yield
    finally:
        _lines.reset(token)


def with_line() -> ir.Location | None:
    """The current location with the user's line; None to keep the location unchanged."""
    if not _lines.get():
        return None
    current = ir.Location.current
    if not isinstance(current, ir.NameLoc) or not isinstance(current.child_loc, ir.UnknownLoc):
        return None
    line = origins.current_line()
    if line is None:
        return None
    return ir.Location.name(current.name_str, ir.Location.file(line.function, line.offset, 0))


def location_name(location: ir.Location) -> str:
    """The first name in a location: its own, or that of its file; "" if it has none."""
    if isinstance(location, ir.NameLoc):
        return location.name_str
    return location.filename if isinstance(location, ir.FileLineColLoc) else ""


def full_name(location: ir.Location, op: str = "") -> str:
    """The source node with the line of user code, as far as known. op: stands for a node that has no name. A line of a traced
    function is relative to that function; see `burn.runtime.origins.resolved`."""
    name = location_name(location)
    name = op if name == PROGRAM else name
    inner: Any = location.child_loc if isinstance(location, ir.NameLoc) else None
    if not isinstance(inner, ir.FileLineColLoc):
        return name
    file, line = inner.filename, inner.start_line
    return origins.named(name, origins.relative(file, line) if ":" in file else f"{file}:{line}")


def site(location: ir.Location, op: str) -> str:
    """The node for errors that also state the op, as in "layer1" or "sin (net.py:17)"; "" if only the op is known."""
    name = origins.resolved(full_name(location, op))
    return "" if name == op and location_name(location) == PROGRAM else name


def current_site(op: str) -> str:
    """The site of an op that is being built."""
    location = _current()
    return "" if location is None else site(location, op)


def current_node() -> str:
    """The source node of the ops being built: the current location's name, or ''."""
    location = _current()
    return "" if location is None else location_name(location)


def _current() -> ir.Location | None:
    try:
        return ir.Location.current
    except ValueError:  # nothing is being built
        return None
