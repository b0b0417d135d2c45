"""Complex tensors while importing: pairs of real ones. There are no complex numbers in the program.

An op with a complex operand or result takes its rule from `COMPLEX`. An op that only moves elements, or is linear in them, does
the same to both parts: `by_parts`. A program's inputs and outputs are never complex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from burn.dialect.complexes import pair
from burn.dialect.complexes.pair import Complex, part_of
from burn.dialect.types import PARTS
from burn.importers.stablehlo.node import RULES, Node, Rule
from burn.importers.stablehlo.syntax.module import FunctionType, Operation, Ranked

COMPLEX: dict[str, Rule] = {}
"""An op's full name -> its rule for complex tensors."""


def complex_rule(*names: str, dialect: str = "stablehlo") -> Callable[[Rule], Rule]:
    """Enters a rule that takes and gives `Complex`, or real values where the file does."""

    def register(function: Rule) -> Rule:
        for name in names:
            key = f"{dialect}.{name}"
            if key in COMPLEX:
                raise ValueError(f"{key} has two rules for complex numbers")
            COMPLEX[key] = function
        return function

    return register


def is_complex(type_: Any) -> bool:
    return isinstance(type_, Ranked) and isinstance(type_.element, str) and type_.element in PARTS


def computes_with_complex(op: Operation) -> bool:
    """True if an operand or a result is complex."""
    return any(map(is_complex, (*op.type.inputs, *op.type.results)))


def real_type(type_: Any) -> Any:
    """The type of a part; any other type as it is."""
    return replace(type_, element=PARTS[type_.element]) if is_complex(type_) else type_


def part_node(node: Node, name: str) -> Node:
    """The op as one of its parts sees it: real where it is complex."""
    type_ = FunctionType(tuple(map(real_type, node.op.type.inputs)), tuple(map(real_type, node.op.type.results)))
    return Node(replace(node.op, type=type_), node.importer, [part_of(v, name) for v in node.operands], node.reads)


def by_parts(node: Node) -> list[Any]:
    """The op's rule for each part alone. Results that are not complex come from the real part."""
    found = [_listed(RULES[node.op.name](part_node(node, name))) for name in ("real", "imag")]
    return [
        Complex(re, im) if is_complex(type_) else re for re, im, type_ in zip(*found, node.op.type.results, strict=True)
    ]


def _listed(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (list, tuple)) else [result]


def rebuilt(flat: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """The reverse of `leaves`, for values of these types."""
    return pair.rebuilt(flat, list(map(is_complex, types)))
