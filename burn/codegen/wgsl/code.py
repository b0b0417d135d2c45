"""The text of a function's body in WGSL."""

from __future__ import annotations

from burn.codegen.printing.code import CodeBase

TYPES = ("i32", "u32", "f32", "f16")
"""Names that a prefix and a number may form. A variable would hide the type."""


class Code(CodeBase):
    INDENT = "  "
    LET = "let {name} = {text};"
    BLOCK = ("{head} {{", "}")

    def fresh(self, prefix: str) -> str:
        name = super().fresh(prefix)
        return super().fresh(prefix) if name in TYPES else name

    def variable(self, type_: str, text: str = "", prefix: str = "m") -> str:
        """A variable that later lines assign. Without a text its value is zero."""
        name = self.fresh(prefix)
        self.line(f"var {name}: {type_}{f' = {text}' if text else ''};")
        return name
