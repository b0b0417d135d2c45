"""The text of a function's body."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from burn.errors import CompileError


class Unprintable(CompileError):
    """The language cannot express it: it runs on the host."""


class CodeBase:
    """Lines of a function's body, and names for its values. A language gives the spelling."""

    INDENT: ClassVar[str]
    LET: ClassVar[str]
    """Binds `{name}` to `{text}`."""
    BLOCK: ClassVar[tuple[str, str]]
    """The first line of a block, of its `{head}`, and the last one ("": none)."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 1
        self._names: dict[str, int] = {}

    def line(self, text: str) -> None:
        self.lines.append(self.INDENT * self._depth + text)

    def fresh(self, prefix: str) -> str:
        number = self._names.get(prefix, 0)
        self._names[prefix] = number + 1
        return f"{prefix}{number}"

    def let(self, text: str, prefix: str = "v") -> str:
        name = self.fresh(prefix)
        self.line(self.LET.format(name=name, text=text))
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        first, last = self.BLOCK
        self.line(first.format(head=head))
        self._depth += 1
        yield
        self._depth -= 1
        if last:
            self.line(last)
