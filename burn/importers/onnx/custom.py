"""Nodes that are custom ops (`burn.custom_op`): an operator of a domain that the user has defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import AttributeProto

from burn.dialect import custom
from burn.dialect.mlir import ir
from burn.importers.onnx.node import Node

_READERS: dict[Any, Callable[[AttributeProto], Any]] = {
    AttributeProto.INT: lambda a: int(a.i),
    AttributeProto.FLOAT: lambda a: _shortest(a.f),
    AttributeProto.STRING: lambda a: a.s.decode(),
    AttributeProto.INTS: lambda a: tuple(map(int, a.ints)),
    AttributeProto.FLOATS: lambda a: tuple(map(_shortest, a.floats)),
}


def _shortest(value: float) -> float:
    """A float32 of a file as the number that was written: 0.1, not 0.10000000149."""
    return float(str(np.float32(value)))


def known() -> set[tuple[str, str]]:
    """(domain, operator) of every custom op."""
    return {(domain, operator) for domain, _, operator in (name.partition("::") for name in custom.names())}


def builder(node: Node) -> Callable[[Node], list[ir.Value]] | None:
    """The builder of a node; None if there is no custom op of that name."""
    return _custom if (node.domain, node.op) in known() else None


def _custom(node: Node) -> list[ir.Value]:
    definition = custom.named(f"{node.domain}::{node.op}")
    assert definition is not None
    settings = {}
    for name, default in definition.attributes.items():
        attribute = node.attribute(name)
        if attribute is None:
            continue
        if attribute.type not in _READERS:
            kind = AttributeProto.AttributeType.Name(attribute.type)
            node.fail(f"is a {kind}, which no custom op takes", name)
        value = _READERS[attribute.type](attribute)
        if isinstance(default, bool) and value in (0, 1):
            value = bool(value)
        settings[name] = value
    return custom.build_given(definition, [node.input(i) for i in range(len(node.inputs))], settings)
