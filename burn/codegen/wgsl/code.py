"""The text of a function's body."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from burn.errors import CompileError


class Unprintable(CompileError):
    """WGSL cannot express it: it runs on the host."""


class Code:
    """Lines of a function's body, and names for its values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 1
        self._names: dict[str, int] = {}

    def line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    def fresh(self, prefix: str) -> str:
        number = self._names.get(prefix, 0)
        self._names[prefix] = number + 1
        return f"{prefix}{number}"

    def let(self, text: str, prefix: str = "v") -> str:
        name = self.fresh(prefix)
        self.line(f"let {name} = {text};")
        return name

    def variable(self, type_: str, text: str = "", prefix: str = "m") -> str:
        """A variable that later lines assign. Without a text its value is zero."""
        name = self.fresh(prefix)
        self.line(f"var {name}: {type_}{f' = {text}' if text else ''};")
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(f"{head} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")
