"""The text of a function's body, and the axes of the blocks that it computes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from burn.errors import CompileError

Axes = frozenset[str]
NONE: Axes = frozenset()


class Unprintable(CompileError):
    """Triton cannot express it: it runs on the host."""


class Code:
    """Lines of a function's body, and names for its values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 1
        self._names: dict[str, int] = {}

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    def fresh(self, prefix: str) -> str:
        number = self._names.get(prefix, 0)
        self._names[prefix] = number + 1
        return f"{prefix}{number}"

    def let(self, text: str, prefix: str = "v") -> str:
        name = self.fresh(prefix)
        self.line(f"{name} = {text}")
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1


@dataclass
class Axis:
    """One axis of the block: the text of its indices, and of their mask (empty if all are in range)."""

    indices: str
    mask: str = ""


@dataclass(frozen=True)
class Guard:
    axes: Axes
    text: str
