"""Masks of positions become causal attention; other masks stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, number, number_like
from burn.dialect.dims import dim_min, symbol
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.dialect.weights import array_weight
from burn.passes import pipeline
from tests.passes.cases import PLAIN, inputs, run

N = symbol("n")
LENGTHS = (6, 5)  # queries, keys
Mask = Callable[[Program, int, int], ir.Value]


def positions(length: int, axis: int) -> ir.Value:
    counted = ops.iota(shape=(length,), axis=0, dtype="int64")
    return ops.reshape(counted, shape=(1, 1, length, 1) if axis == 2 else (1, 1, 1, length))


def compared(op: str, first: int, second: int) -> Mask:
    return lambda program, s, t: getattr(ops, op)(
        positions((s, t)[first - 2], first), positions((s, t)[second - 2], second)
    )


def grid(program: Program, s: int, t: int) -> ir.Value:
    """How ONNX's Trilu is imported, and the comparisons that PyTorch's exporter adds."""
    column, row = (ops.iota(shape=(s, t), axis=axis, dtype="int64") for axis in (1, 0))
    difference = ops.sub(column, row)
    keep = ops.le(difference, number_like(0, difference))
    triangle = ops.select(keep, broadcast_to(number(1.0, "float32"), (1,)), number(0.0, "float32"))
    hidden = ops.eq(triangle, number_like(0.0, triangle))
    return ops.select(hidden, number(-np.inf, "float32"), number(0.0, "float32"))


BEFORE = compared("le", 3, 2)


def added(value: float, mask: Mask = BEFORE) -> Mask:
    return lambda program, s, t: ops.select(mask(program, s, t), number(0.0, "float32"), number(value, "float32"))


def buffer(numbers: np.ndarray) -> Mask:
    def make(program: Program, s: int, t: int) -> ir.Value:
        key = program.weights.add(array_weight(numbers.astype("float32")[None, None]))
        stored = ops.weight(key=key, shape=(1, 1, *numbers.shape), dtype="float32")
        part = ops.slice(stored, starts=(0, 0, 0, 0), sizes=(1, 1, s, t), steps=(1, 1, 1, 1))
        return ops.ne(part, number_like(0.0, part))

    return make


def both(first: Mask, second: Mask) -> Mask:
    return lambda program, s, t: ops.and_(first(program, s, t), second(program, s, t))


def padding(program: Program, s: int, t: int) -> ir.Value:
    return ops.reshape(ops.lt(ops.iota(shape=(t,), axis=0, dtype="int64"), number(4, "int64")), shape=(1, 1, 1, t))


CAUSAL: dict[str, Mask] = {
    "key <= query": compared("le", 3, 2),
    "query >= key": compared("ge", 2, 3),
    "not key > query": lambda program, s, t: ops.not_(compared("gt", 3, 2)(program, s, t)),
    "a triangle": grid,
    "added -inf": added(-np.inf),
    "added least number": added(float(np.finfo(np.float32).min)),
    "a buffer": buffer(np.tri(8)),
    "a buffer that is turned": lambda program, s, t: ops.not_(buffer(1 - np.tri(8))(program, s, t)),
    "and padding": both(compared("le", 3, 2), padding),
}

OTHER: dict[str, Mask] = {
    "key < query": compared("lt", 3, 2),
    "query <= key": compared("le", 2, 3),
    "key <= key": compared("le", 3, 3),
    "added -10000": added(-10000.0),
    "padding": padding,
    "padding added": added(float(np.finfo(np.float32).min), both(compared("le", 3, 2), padding)),
    "another triangle": buffer(np.tri(8, k=1)),
    "a part of a triangle": lambda program, s, t: ops.slice(
        compared("le", 3, 2)(program, s + 1, t), starts=(0, 0, 1, 0), sizes=(1, 1, s, t), steps=(1, 1, 1, 1)
    ),
}


def program(mask: Mask, s: int, t: int) -> Program:
    made = Program.create(
        [(n, TensorType("float32", (2, 3, length, 4))) for n, length in zip("qkv", (s, t, t), strict=True)]
    )
    with made.building("node"):
        q, k, v = made.inputs
        result = ops.attention(q, k, v, mask(made, s, t), scale=0.5)
    return made.finish([("y", result)])


def attention_of(made: Program):
    return next(op.opview for op in made.block.operations if op.operation.name == "burn.attention")


@pytest.mark.parametrize("lengths", [(6, 5), (5, 6), (7, 7)], ids=str)
@pytest.mark.parametrize("name", CAUSAL)
def test_a_mask_of_positions_is_causal(name: str, lengths: tuple[int, int]) -> None:
    before, after = program(CAUSAL[name], *lengths), program(CAUSAL[name], *lengths)
    pipeline.run(pipeline.parse("simplify,verify,recognise,verify"), after)
    op = attention_of(after)
    assert op.causal
    assert (op.mask is not None) == ("padding" in name)
    arrays = inputs(before, special=False)
    for want, got in zip(run(before, PLAIN, arrays), run(after, PLAIN, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("name", OTHER)
def test_other_masks_stay(name: str) -> None:
    made = program(OTHER[name], *LENGTHS)
    pipeline.run(pipeline.parse("simplify,recognise"), made)
    assert not attention_of(made).causal


def test_a_sequence_longer_than_the_buffer_is_refused() -> None:
    made = Program.create([(n, TensorType("float32", (1, 1, N, 4))) for n in "qkv"])
    with made.building("node"):
        key = made.weights.add(array_weight(np.tri(8, dtype="float32")))
        stored = ops.weight(key=key, shape=(8, 8), dtype="float32")
        size = dim_min(8, N)
        part = ops.slice(stored, starts=(0, 0), sizes=(size, size), steps=(1, 1))
        result = ops.attention(*made.inputs, ops.ne(part, number_like(0.0, part)), scale=0.5)
    made.finish([("y", result)])
    pipeline.run(pipeline.parse("simplify,recognise"), made)
    assert attention_of(made).causal
    assert any(op.operation.name == "burn.check_size" for op in made.block.operations)


@pytest.mark.parametrize("scale", [0.353553368012399, 0.3535533845424652, 0.35355339059327373])
def test_a_scale_with_rounding_errors(scale: float) -> None:
    """PyTorch's exporters compute 1 / sqrt(8) in float32, and as the square of its root."""
    made = Program.create([(n, TensorType("float32", (1, 2, 5, 8))) for n in "qkv"])
    with made.building("node"):
        q, k, v = made.inputs
        scores = ops.dot_general(q, k, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(3,), rhs_contract=(3,))
        weights = ops.softmax(ops.mul(scores, number(scale, "float32")), axis=3)
        result = ops.dot_general(weights, v, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(3,), rhs_contract=(2,))
    made.finish([("y", result)])
    pipeline.run(pipeline.parse("simplify,recognise"), made)
    assert attention_of(made).scale == 1 / np.sqrt(8)
