"""The table of folding rules: operator -> contents of its outputs, from the contents of its operands. Enter at `evaluate`.

A rule raises `Unknown` if its operands' contents do not decide the outputs. Builders report mistakes in a model, since they
process every node that no rule folds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from burn.importers.onnx.contents import MAX_ELEMENTS, Content, Unknown

if TYPE_CHECKING:
    from burn.importers.onnx.node import Node

Rule = Callable[["Node"], "Content | list[Content]"]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Callable[[Node], Any]], Callable[[Node], Any]]:
    def register(rule: Callable[[Node], Any]) -> Callable[[Node], Any]:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def known(node: Node, index: int) -> Content:
    content = node.content(index)
    if content is None:
        raise Unknown
    return content


def integers(node: Node, index: int) -> list[int]:
    array = node.constant(index)
    if array is None:
        raise Unknown
    return [int(v) for v in array.reshape(-1)]


def axes_of(node: Node, index: int, since: int) -> list[int] | None:
    """Axes, an attribute before opset `since` and an operand after it."""
    if node.opset < since:
        found = node.ints("axes", None)
        return None if found is None else list(found)
    return integers(node, index) if node.has_input(index) else None


def evaluate(node: Node) -> list[Content] | None:
    """The contents of a node's outputs where its operands' contents decide them, else None."""
    rule = RULES.get(node.op) if node.domain == "" else None
    if rule is None:
        return None
    try:
        result = rule(node)
    except (Unknown, ArithmeticError, ValueError, IndexError):  # the builder says what is wrong
        return None
    results = result if isinstance(result, list) else [result]
    return results if all(r.array.size <= MAX_ELEMENTS for r in results) else None
