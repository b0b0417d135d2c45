"""Random draws that the backward pass repeats: activation checkpoints around dropout.

torch saves its generator's state, a tensor of bytes, before the first draw and restores it before the second. Here the state's
first eight bytes are the key of the first draw."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from burn.dialect import ops
from burn.dialect.compose import convert, number, reshape
from burn.dialect.mlir import ir
from burn.importers.torch.build import op_name
from burn.importers.torch.node import BUILDERS, Node, higher_order

BYTES, WORDS = 4, 2
"""A key: two words of four bytes."""


class _Inner(Node):
    """The call that draws, inside of the one that keeps or sets the state."""

    def __init__(
        self, outer: Node, target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], meta: Any
    ) -> None:
        node = fx.Node(outer.fx.graph, f"{outer.fx.name}_inner", "call_function", target, (), {})
        node.meta = {**outer.fx.meta, "val": meta}
        super().__init__(node, outer.importer, op_name(target))

    def uses(self, index: int, but: Any = None) -> bool:
        return True


def _drawn(
    outer: Node, target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], meta: Any, key: ir.Value
) -> Any:
    builder = BUILDERS.get(op_name(target))
    if builder is None:
        outer.fail(f"{op_name(target)} in an activation checkpoint is not supported")
    with outer.importer.drawing(key):
        node = _Inner(outer, target, arguments, keywords, meta)
        return outer.importer._fitted(node, _called(builder, node, target, arguments, keywords))


@higher_order("run_and_save_rng_state")
def run_and_save(node: Node, target: Any, *arguments: Any, **keywords: Any) -> list[Any]:
    key = node.importer.random_key()
    result = next(user for user in node.fx.users if user.args[1] == 1)  # torch says nothing of the pair
    state = _state(key, torch.get_rng_state().numel())
    return [state, _drawn(node, target, arguments, keywords, result.meta["val"], key)]


@higher_order("run_with_rng_state")
def run_with(node: Node, state: ir.Value, target: Any, *arguments: Any, **keywords: Any) -> Any:
    return _drawn(node, target, arguments, keywords, node.meta, _key(state))


def _called(builder: Any, node: Node, target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The builder's result for the arguments as the operator's schema has them."""
    positional, by_name = [], {}
    for i, argument in enumerate(target._schema.arguments):
        value = arguments[i] if i < len(arguments) else argument.default_value
        value = keywords.get(argument.name, value)
        if argument.kwarg_only:
            by_name[argument.name] = value
        else:
            positional.append(value)
    return builder(node, *positional, **by_name)


def _state(key: ir.Value, size: int) -> ir.Value:
    """A key as bytes, the lowest of each word first, and zeros behind it: uint8[size]."""
    shifts = ops.mul(ops.iota(shape=(1, BYTES), axis=1), number(8, "int64"))
    words = reshape(convert(key, "int64"), (WORDS, 1))
    below = ops.mod(ops.shift_right(words, shifts), number(256, "int64"))
    told = reshape(convert(below, "uint8"), (BYTES * WORDS,))
    return ops.pad(told, number(0, "uint8"), low=(0,), high=(size - BYTES * WORDS,))


def _key(state: ir.Value) -> ir.Value:
    """The key that a state begins with: uint32[2]."""
    told = ops.slice(state, starts=(0,), sizes=(BYTES * WORDS,), steps=(1,))
    bits = ops.mul(ops.iota(shape=(1, BYTES), axis=1), number(8, "int64"))
    words = ops.shift_left(convert(reshape(told, (WORDS, BYTES)), "int64"), bits)
    return convert(ops.reduce(words, kind="sum", axes=(1,)), "uint32")
