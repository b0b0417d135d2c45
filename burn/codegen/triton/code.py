"""The text of a function's body, and the axes of the blocks that it computes on."""

from __future__ import annotations

from dataclasses import dataclass

from burn.codegen.printing.code import CodeBase

Axes = frozenset[str]
NONE: Axes = frozenset()


class Code(CodeBase):
    INDENT = "    "
    LET = "{name} = {text}"
    BLOCK = ("{head}", "")


@dataclass
class Axis:
    """One axis of the block: the text of its indices, and of their mask (empty if all are in range)."""

    indices: str
    mask: str = ""


@dataclass(frozen=True)
class Guard:
    axes: Axes
    text: str
