"""The text of a function's body in WGSL."""

from __future__ import annotations

from burn.codegen.printing.code import CodeBase


class Code(CodeBase):
    INDENT = "  "
    LET = "let {name} = {text};"
    BLOCK = ("{head} {{", "}")

    def variable(self, type_: str, text: str = "", prefix: str = "m") -> str:
        """A variable that later lines assign. Without a text its value is zero."""
        name = self.fresh(prefix)
        self.line(f"var {name}: {type_}{f' = {text}' if text else ''};")
        return name
