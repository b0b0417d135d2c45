"""Programs with views and formulas as exporters write them, and what a person would write; the numbers stay the same.

BURN_SWEEP draws so many more chains of views, by BURN_SWEEP_SEED."""

from __future__ import annotations

import os
import random

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import number, reshape, transpose
from burn.dialect.dims import symbol
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.dialect.weights import array_weight
from burn.exporters.python.straighten import straighten
from tests.passes.cases import PLAIN, inputs, run

SWEEP = int(os.environ.get("BURN_SWEEP", "16"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "7"))
B, L = symbol("b"), symbol("l")


def names(made: Program) -> list[str]:
    return [op.operation.name.removeprefix("burn.") for op in made.block.operations][:-1]


def same(build, *shapes: tuple) -> list[str]:
    """The ops that are left after the laws; checks that they compute the same."""
    programs = []
    for _ in range(2):
        made = Program.create([(f"x{i}", TensorType("float32", shape)) for i, shape in enumerate(shapes)])
        with made.building("node"):
            result = build(made, *made.inputs)
        programs.append(made.finish([("y", result)]))
    before, after = programs
    straighten(after)
    left = names(after)
    arrays = inputs(before, special=False)
    for want, got in zip(run(before, PLAIN, arrays), run(after, PLAIN, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return left


def weight(made: Program, *shape: int) -> ir.Value:
    numbers = np.random.default_rng(1).normal(size=shape).astype("float32")
    return ops.weight(key=made.weights.add(array_weight(numbers)), shape=shape, dtype="float32")


def drawn(draw: random.Random, x: ir.Value) -> ir.Value:
    """A random chain of views, slices among them."""
    for _ in range(draw.randint(2, 7)):
        shape = type_of(x).shape
        kind = draw.random()
        if kind < 0.4 and len(shape) > 1:
            order = list(range(len(shape)))
            draw.shuffle(order)
            x = transpose(x, tuple(order))
        elif kind < 0.5 and any(isinstance(d, int) and d > 1 for d in shape):
            axis, known = draw.choice([(i, d) for i, d in enumerate(shape) if isinstance(d, int) and d > 1])
            size = draw.randint(1, known)
            start = draw.randint(0, known - size)
            x = ops.slice(
                x,
                starts=tuple(start if i == axis else 0 for i in range(len(shape))),
                sizes=tuple(size if i == axis else d for i, d in enumerate(shape)),
                steps=(1,) * len(shape),
            )
        else:
            x = reshape(x, regrouped(draw, shape))
    return x


def regrouped(draw: random.Random, shape: tuple) -> tuple:
    """Neighbouring sizes merged, whole numbers split, axes of size 1 added and removed."""
    result: list = []
    for size in shape:
        factors = [f for f in (2, 3, 4) if isinstance(size, int) and size > f and size % f == 0]
        if size == 1 and draw.random() < 0.5:
            continue
        if result and draw.random() < 0.3:
            result[-1] = result[-1] * size
        elif factors and draw.random() < 0.5:
            factor = draw.choice(factors)
            result += [factor, size // factor]
        else:
            result.append(size)
        if draw.random() < 0.15:
            result.append(1)
    return tuple(result)


def test_chains_of_views_compute_the_same() -> None:
    shorter = 0
    for number_ in range(SWEEP):
        seed = SEED + number_
        shape = [(12, 5, 6), (2, 3, 4, 6), (L, 6, 8), (1, L, 24), (7,), (4, 1, 6)][seed % 6]
        counts: list[int] = []

        def build(made: Program, x: ir.Value, seed: int = seed, counts: list[int] = counts) -> ir.Value:
            result = drawn(random.Random(seed), x)
            counts.append(sum(op.operation.name != "burn.return" for op in made.block.operations))
            return result

        left = same(build, shape)
        assert len(left) <= counts[0], f"seed {seed}"
        shorter += len(left) < counts[0]
    assert shorter > SWEEP // 4


def test_attention_with_heads_in_the_batch() -> None:
    """nn.MultiheadAttention as torch exports it: [length, batch, features], and heads beside the batch."""

    def build(made: Program, x: ir.Value) -> ir.Value:
        x = transpose(x, (1, 0, 2))
        projected = ops.dot_general(x, weight(made, 24, 8), lhs_contract=(2,), rhs_contract=(1,))
        parts = transpose(reshape(projected, (1, L, B, 3, 8)), (3, 1, 2, 0, 4))
        parts = reshape(parts, (3, L, B, 8))
        heads = []
        for i in range(3):
            part = ops.slice(parts, starts=(i, 0, 0, 0), sizes=(1, L, B, 8), steps=(1, 1, 1, 1))
            part = transpose(reshape(part, (L, 2 * B, 4)), (1, 0, 2))
            heads.append(reshape(part, (B, 2, L, 4)))
        y = ops.attention(*heads, scale=0.5)
        y = reshape(transpose(y, (2, 0, 1, 3)), (L, B, 8))
        y = ops.dot_general(y, weight(made, 8, 8), lhs_contract=(2,), rhs_contract=(1,))
        return transpose(y, (1, 0, 2))

    left = same(build, (B, L, 8))
    assert left.count("slice") == 3
    assert left.count("transpose") == 4  # of queries, keys and values, and of the result
    assert left.count("reshape") == 4


def test_rotation_written_out() -> None:
    def build(made: Program, x: ir.Value, angles: ir.Value) -> ir.Value:
        twice = ops.concat([angles, angles], axis=2)
        cos, sin = (reshape(f(twice), (1, 1, L, 6)) for f in (ops.cos, ops.sin))
        first, second = (ops.slice(x, starts=(0, 0, 0, at), sizes=(B, 2, L, 3), steps=(1, 1, 1, 1)) for at in (0, 3))
        return ops.add(ops.mul(x, cos), ops.mul(ops.concat([ops.neg(second), first], axis=3), sin))

    assert "rotary_embedding" in same(build, (B, 2, L, 6), (1, L, 3))


def test_rotation_of_some_features() -> None:
    def build(made: Program, x: ir.Value, angles: ir.Value) -> ir.Value:
        def part(start: int, size: int) -> ir.Value:
            return ops.slice(x, starts=(0, 0, 0, start), sizes=(B, 2, L, size), steps=(1, 1, 1, 1))

        turned = ops.rotary_embedding(part(0, 4), ops.cos(angles), ops.sin(angles))
        return ops.concat([turned, part(4, 3)], axis=3)

    assert same(build, (B, 2, L, 7), (1, L, 2)) == ["cos", "sin", "rotary_embedding"]


def test_a_scale_before_views_of_queries() -> None:
    def build(made: Program, q: ir.Value, k: ir.Value) -> ir.Value:
        scaled = ops.mul(q, number(0.25, "float32"))
        heads = transpose(reshape(scaled, (B, 5, 2, 4)), (0, 2, 1, 3))
        return ops.attention(heads, k, k, scale=2.0)

    assert "mul" not in same(build, (B, 5, 8), (B, 2, 5, 4))


def test_features_in_the_middle() -> None:
    """A mixer's token layer: the contracted axis is not the last one."""

    def build(made: Program, x: ir.Value) -> ir.Value:
        return ops.dot_general(x, weight(made, 4, 7), lhs_contract=(1,), rhs_contract=(0,))

    assert same(build, (B, 4, 5)) == ["weight", "transpose", "dot_general"]


def test_states_of_zeros() -> None:
    def build(made: Program, x: ir.Value) -> ir.Value:
        zeros = ops.full(shape=(1, B, 3), value=0.0, dtype="float32")
        y, _, _ = ops.lstm(x, weight(made, 1, 12, 2), weight(made, 1, 12, 3), None, None, zeros, zeros)
        return y

    assert "full" not in same(build, (5, B, 2))
