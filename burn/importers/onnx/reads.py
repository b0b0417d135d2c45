"""Record of the operands and attributes that a builder has read. Enter at `Reads`.

A file may give an attribute or an operand that no builder reads: an operator of another release, a vendor's extension,
a misspelt name. Computing without it would give wrong numbers, so `build.py` refuses whatever `Reads` has not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from onnx import NodeProto

from burn.importers.onnx.schemas import default_of

HINTS = {"consumed_inputs": "opsets 1 to 5 named operands whose memory the result may take"}
"""Attributes of standard operators that never change a result, and the reason."""


@dataclass
class Reads:
    """Indices of the operands and names of the attributes that were read."""

    inputs: set[int] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)

    def clear(self) -> None:
        self.inputs.clear()
        self.attributes.clear()

    def unread_inputs(self, inputs: Operands) -> list[int]:
        """Indices of operands that are there and were not read."""
        return [i for i, value in enumerate(inputs.peek()) if value is not None and i not in self.inputs]

    def unread_attributes(self, node: NodeProto, domain: str, opset: int) -> list[str]:
        """Names of attributes that the node has and no builder read. An attribute with its default value is ignored."""
        read = self.attributes if domain else self.attributes | HINTS.keys()
        unread = (a for a in node.attribute if a.name not in read)
        return [a.name for a in unread if a != default_of(node.op_type, domain, opset, a.name)]


class Operands(list[Any]):
    """A node's operands; taking one is a read."""

    def __init__(self, values: list[Any], reads: Reads) -> None:
        super().__init__(values)
        self._reads = reads

    def peek(self) -> Iterator[Any]:
        """All operands, without a read."""
        return super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        taken = range(len(self))[index]
        self._reads.inputs.update(taken if isinstance(taken, range) else (taken,))
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Any]:
        self._reads.inputs.update(range(len(self)))
        return super().__iter__()
