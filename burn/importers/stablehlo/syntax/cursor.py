"""A position in a text of MLIR, with the few steps that its readers are made of. Every step moves forward or raises
ModelError."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from burn.errors import ModelError

DEEPEST = 64
"""Regions, types and attributes in each other. JAX's own programs stay below 20."""

_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_NAME = re.compile(r"[\w$.-]+")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-9a-fA-F]{2}|.)", re.DOTALL)
_SHOWN = 40
_CLOSES = {"<": ">", "(": ")", "[": "]", "{": "}"}
_BRACKET = re.compile(r'[<>()\[\]{}"]|->')


class Cursor:
    """text, and the position `at` which it is read. Spaces and comments before a token are skipped."""

    def __init__(self, text: str, what: str = "the program") -> None:
        self.text = text
        self.what = what
        self.position = 0
        self._depth = 0

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.position)
        if found is not None:
            self.position = found.end()

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The pattern at the cursor, which moves behind it."""
        self.skip()
        found = pattern.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def expect(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = self.match(pattern)
        if found is None:
            self.fail(f"{what} is missing")
        return found

    def at(self, token: str) -> bool:
        self.skip()
        return self.text.startswith(token, self.position)

    def accept(self, token: str) -> bool:
        if not self.at(token):
            return False
        self.position += len(token)
        return True

    def take(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"'{token}' is missing")

    @property
    def ended(self) -> bool:
        self.skip()
        return self.position >= len(self.text)

    def string(self) -> str:
        """A string literal; bytes that are no UTF-8 become U+FFFD."""
        found = self.expect(_STRING, "a string")
        text = found[1]
        if "\\" not in text:
            return text

        def plain(escape: re.Match[bytes]) -> bytes:
            code = escape[1]
            return bytes([int(code, 16)]) if len(code) == 2 else {b"n": b"\n", b"t": b"\t"}.get(code, code)

        return _ESCAPE.sub(plain, text.encode()).decode("utf-8", "replace")

    def dialect_name(self) -> str:
        """The name after `#` or `!`."""
        self.position += 1
        found = _NAME.match(self.text, self.position)
        if found is None:
            self.fail("a name is missing")
        self.position = found.end()
        return found.group()

    def until(self, token: str) -> str:
        """The text before the next `token`, which is passed."""
        end = self.text.find(token, self.position)
        if end < 0:
            self.fail(f"'{token}' is missing")
        found = self.text[self.position : end]
        self.position = end + len(token)
        return found

    def balanced(self) -> str:
        """The text between the bracket at the cursor and the one that closes it."""
        self.skip()
        opens = self.text[self.position : self.position + 1]
        if opens not in _CLOSES:
            self.fail("a bracket is missing")
        self.position += 1
        body = self.until_closed(_CLOSES[opens])
        self.take(_CLOSES[opens])
        return body

    def until_closed(self, closes: str) -> str:
        """The text before the bracket `closes` that no bracket on the way opens. The cursor stays before it."""
        start, pending = self.position, [closes]
        while True:
            found = _BRACKET.search(self.text, self.position)
            if found is None:
                self.fail(f"'{pending[-1]}' is missing")
            token = found.group()
            if token == '"':
                self.position = found.start()
                self.expect(_STRING, "a string")
                continue
            if token in _CLOSES:
                pending.append(_CLOSES[token])
            elif token == pending[-1]:
                pending.pop()
                if not pending:
                    self.position = found.start()
                    return self.text[start : found.start()]
            elif token != "->":
                self.fail(f"'{pending[-1]}' is missing")
            self.position = found.end()

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Reads what is one level deeper."""
        self._depth += 1
        if self._depth > DEEPEST:
            self.fail(f"more than {DEEPEST} regions, types or attributes are in each other")
        try:
            yield
        finally:
            self._depth -= 1

    def fail(self, message: str) -> NoReturn:
        line = self.text.count("\n", 0, self.position) + 1
        near = self.text[self.position : self.position + _SHOWN].split("\n")[0]
        raise ModelError(
            f"{self.what} cannot be read", [f"line {line} of its generic form, before '{near}': {message}"]
        )
