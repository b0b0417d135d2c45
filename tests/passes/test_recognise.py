"""Formulas as exporters write them out, and the composites they are; the numbers stay the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from burn.dialect import ops
from burn.dialect.compose import mean, number_like, transpose
from burn.dialect.dims import symbol
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.passes import pipeline
from tests.passes.cases import PLAIN, inputs, run

PASSES = "simplify{absorb=false},verify,recognise,verify"
N = symbol("n")
Build = Callable[..., ir.Value]


def c(x: ir.Value, value: float) -> ir.Value:
    return number_like(value, x)


def program(build: Build, *types: TensorType) -> Program:
    made = Program.create([(f"x{i}", t) for i, t in enumerate(types)])
    with made.building("node"):
        result = build(*made.inputs)
    return made.finish([("y", result)])


def recognised(build: Build, *types: TensorType) -> list[str]:
    """The names of the ops that are left; checks that they compute the same."""
    before, after = program(build, *types), program(build, *types)
    pipeline.run(pipeline.parse(PASSES), after)
    names = [op.operation.name.removeprefix("burn.") for op in after.block.operations][:-1]
    arrays = inputs(before, special=False)
    for want, got in zip(run(before, PLAIN, arrays), run(after, PLAIN, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-6)
    return [name for name in names if name not in ("full", "constant")]


ROWS = TensorType("float32", (N, 10))
ROOT2 = math.sqrt(2)


def erf_gate(x: ir.Value) -> ir.Value:
    return ops.add(ops.erf(ops.div(x, c(x, ROOT2))), c(x, 1))


def tanh_gate(x: ir.Value, cube: ir.Value) -> ir.Value:
    inner = ops.mul(ops.add(x, ops.mul(cube, c(x, 0.044715))), c(x, 0.7978845608))
    return ops.add(ops.tanh(inner), c(x, 1))


ACTIVATIONS: dict[str, tuple[str, Build]] = {
    "gelu, half last": ("gelu", lambda x: ops.mul(ops.mul(x, erf_gate(x)), c(x, 0.5))),
    "gelu, half first": ("gelu", lambda x: ops.mul(ops.mul(c(x, 0.5), x), erf_gate(x))),
    "gelu, half inside": ("gelu", lambda x: ops.mul(x, ops.mul(erf_gate(x), c(x, 0.5)))),
    "gelu, halves in the sum": (
        "gelu",
        lambda x: ops.mul(ops.add(ops.mul(ops.erf(ops.mul(x, c(x, 1 / ROOT2))), c(x, 0.5)), c(x, 0.5)), x),
    ),
    "gelu, division by two": ("gelu", lambda x: ops.div(ops.mul(erf_gate(x), x), c(x, 2))),
    "gelu by tanh, power": (
        "gelu",
        lambda x: ops.mul(ops.mul(x, c(x, 0.5)), tanh_gate(x, ops.pow(x, c(x, 3)))),
    ),
    "gelu by tanh, products": (
        "gelu",
        lambda x: ops.mul(ops.mul(x, tanh_gate(x, ops.mul(x, ops.mul(x, x)))), c(x, 0.5)),
    ),
    "silu": ("silu", lambda x: ops.mul(x, ops.sigmoid(x))),
    "quick gelu": ("silu", lambda x: ops.mul(ops.sigmoid(ops.mul(x, c(x, 1.702))), x)),
    "mish": ("mish", lambda x: ops.mul(x, ops.tanh(ops.softplus(x)))),
    "mish written out": ("mish", lambda x: ops.mul(x, ops.tanh(ops.log(ops.add(ops.exp(x), c(x, 1)))))),
    "hard swish": (
        "hard_swish",
        lambda x: ops.mul(x, ops.div(ops.clip(ops.add(x, c(x, 3)), c(x, 0), c(x, 6)), c(x, 6))),
    ),
    "hard swish, late division": (
        "hard_swish",
        lambda x: ops.div(ops.mul(x, ops.min(ops.max(ops.add(x, c(x, 3)), c(x, 0)), c(x, 6))), c(x, 6)),
    ),
    "hard sigmoid": (
        "hard_sigmoid",
        lambda x: ops.div(ops.clip(ops.add(ops.mul(x, c(x, 2)), c(x, 3)), c(x, 0), c(x, 6)), c(x, 6)),
    ),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str) -> None:
    expected, build = ACTIVATIONS[name]
    assert recognised(build, ROWS) == [expected]


OTHERS: dict[str, Build] = {
    "another root": lambda x: ops.mul(ops.mul(x, ops.add(ops.erf(ops.div(x, c(x, 1.5))), c(x, 1))), c(x, 0.5)),
    "another number": lambda x: ops.mul(ops.mul(x, erf_gate(x)), c(x, 0.25)),
    "another cube": lambda x: ops.mul(ops.mul(x, c(x, 0.5)), tanh_gate(x, ops.mul(x, x))),
    "a gate of something else": lambda x: ops.mul(x, ops.sigmoid(ops.exp(x))),
    "clipped elsewhere": lambda x: ops.mul(x, ops.div(ops.clip(ops.add(x, c(x, 3)), c(x, 1), c(x, 6)), c(x, 6))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_similar_formulas_stay(name: str) -> None:
    composites = {"gelu", "silu", "mish", "hard_swish", "hard_sigmoid"}
    assert not composites & set(recognised(OTHERS[name], ROWS))


def norm(x: ir.Value, axes: tuple[int, ...], squeeze: bool = False, power: bool = False) -> ir.Value:
    def average(v: ir.Value) -> ir.Value:
        if not squeeze:
            return mean(v, axes, keepdims=True)
        shape = tuple(1 if i in axes else d for i, d in enumerate(TensorType.from_mlir(v.type).shape))
        return ops.reshape(mean(v, axes), shape=shape)

    centred = ops.sub(x, average(x))
    square = ops.pow(centred, c(x, 2)) if power else ops.mul(centred, centred)
    return ops.div(centred, ops.sqrt(ops.add(average(square), c(x, 1e-5))))


@pytest.mark.parametrize("squeeze", (False, True))
@pytest.mark.parametrize("power", (False, True))
def test_layer_norm(squeeze: bool, power: bool) -> None:
    def build(x: ir.Value, scale: ir.Value, bias: ir.Value) -> ir.Value:
        return ops.add(ops.mul(norm(x, (2,), squeeze, power), scale), bias)

    types = (TensorType("float32", (N, 3, 10)), TensorType("float32", (10,)), TensorType("float32", (10,)))
    assert recognised(build, *types) == ["layer_norm"]


def test_layer_norm_over_two_axes() -> None:
    assert recognised(lambda x: norm(x, (1, 2)), TensorType("float32", (N, 3, 10))) == ["layer_norm"]


def moments(x: ir.Value, scale: ir.Value | None, axes: tuple[int, ...] = (1,), of: ir.Value | None = None) -> ir.Value:
    """Flax's layer norm: the variance is the mean of squares less the square of the mean. of: what its mean is of."""
    centre, squares = mean(x if of is None else of, axes, keepdims=True), mean(ops.mul(x, x), axes, keepdims=True)
    variance = ops.max(ops.sub(squares, ops.mul(centre, centre)), c(squares, 0))
    root = ops.rsqrt(ops.add(variance, c(variance, 1e-3)))
    return ops.mul(ops.sub(x, centre), root if scale is None else ops.mul(root, scale))


VECTOR = TensorType("float32", (10,))


def test_layer_norm_of_moments() -> None:
    spread = lambda v: ops.reshape(v, shape=(1, 10))  # noqa: E731
    assert recognised(lambda x: moments(x, None), ROWS) == ["layer_norm"]
    assert recognised(lambda x, s: moments(x, spread(s)), ROWS, VECTOR)[-1:] == ["layer_norm"]
    assert recognised(lambda x, s, b: ops.add(moments(x, spread(s)), spread(b)), ROWS, VECTOR, VECTOR)[-1:] == [
        "layer_norm"
    ]
    cube = TensorType("float32", (N, 2, 5))
    assert recognised(lambda x: moments(x, None, (1, 2)), cube) == ["layer_norm"]
    for similar in (
        lambda x: moments(x, None, (1,)),  # the inner axis of three
        lambda x: moments(x, None, (1, 2), ops.abs(x)),  # another mean
    ):
        assert "layer_norm" not in recognised(similar, cube)


def test_batch_norm() -> None:
    image = TensorType("float32", (N, 4, 3, 10))

    def normed(x: ir.Value, *vectors: ir.Value, axis: int = 3, other: int | None = None) -> ir.Value:
        def along(v: ir.Value, axis: int) -> ir.Value:
            return ops.reshape(v, shape=tuple(type_of(v).shape[0] if i == axis else 1 for i in range(4)))

        mean_, scale = along(vectors[0], axis), along(vectors[2], axis)
        bias = along(vectors[3], axis if other is None else other)
        variance = along(ops.mul(vectors[1], vectors[1]), axis)
        root = ops.rsqrt(ops.add(variance, c(variance, 1e-3)))
        return ops.add(ops.mul(ops.sub(x, mean_), ops.mul(root, scale)), bias)

    assert "batch_norm" in recognised(normed, image, *[VECTOR] * 4)
    four = TensorType("float32", (4,))
    found = recognised(lambda *v: normed(*v, axis=1), image, *[four] * 4)
    assert "batch_norm" in found and "transpose" not in found
    square = TensorType("float32", (N, 4, 3, 4))
    assert "batch_norm" not in recognised(lambda *v: normed(*v, axis=3, other=1), square, *[four] * 4)
    rows = TensorType("float32", (10, 1, 1, 10))  # a vector along the axis of the batch
    assert "batch_norm" not in recognised(lambda *v: normed(*v, axis=0), rows, *[VECTOR] * 4)


def test_norm_over_inner_axis_stays() -> None:
    assert "layer_norm" not in recognised(lambda x: norm(x, (1,)), TensorType("float32", (N, 3, 10)))


def test_rms_norm() -> None:
    def build(x: ir.Value, scale: ir.Value) -> ir.Value:
        square = mean(ops.pow(x, c(x, 2)), (1,), keepdims=True)
        root = ops.reciprocal(ops.sqrt(ops.add(square, c(x, 1e-6))))
        return ops.mul(scale, ops.mul(x, root))

    assert recognised(build, ROWS, TensorType("float32", (10,))) == ["rms_norm"]


def test_softmax() -> None:
    def build(x: ir.Value) -> ir.Value:
        power = ops.exp(ops.sub(x, ops.reduce(x, kind="max", axes=(1,), keepdims=True)))
        return ops.div(power, ops.reduce(power, kind="sum", axes=(-1,), keepdims=True))

    assert recognised(build, ROWS) == ["softmax"]


HEADS = TensorType("float32", (2, 3, N, 8))
SCORES = TensorType("float32", (2, 1, N, N))
LOW = float("-inf")


def scores(q: ir.Value, k: ir.Value) -> ir.Value:
    return ops.dot_general(q, k, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(3,), rhs_contract=(3,))


def mixed(p: ir.Value, v: ir.Value) -> ir.Value:
    return ops.dot_general(p, v, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(3,), rhs_contract=(2,))


def guarded(p: ir.Value) -> ir.Value:
    return ops.select(ops.isnan(p), c(p, 0), p)


def without_hidden_rows(p: ir.Value, mask: ir.Value) -> ir.Value:
    """As ONNX's own expansion of Attention has it."""
    top = ops.reduce(mask, kind="max", axes=(1,), keepdims=True)
    return ops.select(ops.eq(top, c(top, LOW)), c(p, 0), p)


def hidden(dtype: str = "float32") -> ir.Value:
    """A constant mask whose first query may see no key."""
    values = tuple(0.0 if key < query else LOW for query in range(4) for key in range(6))
    return ops.constant(values=values, shape=(4, 6), dtype=dtype)


QUERIES, KEYS = TensorType("float32", (2, 3, 4, 8)), TensorType("float32", (2, 3, 6, 8))


ATTENTIONS: dict[str, tuple[Build, tuple[TensorType, ...]]] = {
    "scale behind": (
        lambda q, k, v: mixed(ops.softmax(ops.div(scores(q, k), c(q, 8**0.5))), v),
        (HEADS,) * 3,
    ),
    "scale on both sides, mask, guard": (
        lambda q, k, v, m: mixed(
            guarded(ops.softmax(ops.add(scores(ops.mul(q, c(q, 0.6)), ops.mul(k, c(q, 0.6))), m))), v
        ),
        (HEADS, HEADS, HEADS, SCORES),
    ),
    "mask on the left": (
        lambda q, k, v, m: mixed(ops.softmax(ops.add(m, ops.mul(scores(q, k), c(q, 0.3)))), v),
        (HEADS, HEADS, HEADS, SCORES),
    ),
    "boolean mask added": (
        lambda q, k, v, m: mixed(
            guarded(ops.softmax(ops.add(scores(q, k), ops.select(m, c(q, 0), c(q, LOW))))), v
        ),
        (HEADS, HEADS, HEADS, SCORES.with_dtype("bool")),
    ),
    "boolean mask chosen by": (
        lambda q, k, v, m: mixed(guarded(ops.softmax(ops.select(m, scores(q, k), c(q, LOW)))), v),
        (HEADS, HEADS, HEADS, SCORES.with_dtype("bool")),
    ),
    "rows without a key set to zero by the mask": (
        lambda q, k, v: mixed(without_hidden_rows(ops.softmax(ops.add(scores(q, k), hidden())), hidden()), v),
        (QUERIES, KEYS, KEYS),
    ),
    "a factor of each head, mask": (
        lambda q, k, v, f, m: mixed(ops.softmax(ops.add(ops.mul(scores(q, k), f), m)), v),
        (HEADS, HEADS, HEADS, TensorType("float32", (3, 1, 1)), SCORES),
    ),
    "a factor on the left, and a number": (
        lambda q, k, v, f: mixed(ops.softmax(ops.mul(f, ops.mul(scores(q, k), c(q, 0.3)))), v),
        (HEADS, HEADS, HEADS, TensorType("float32", (2, 1, 1, 1))),
    ),
    "axes in another order": (
        lambda q, k, v: mixed(
            ops.softmax(scores(transpose(q, (0, 2, 1, 3)), transpose(k, (0, 2, 1, 3)))), transpose(v, (0, 2, 1, 3))
        ),
        (TensorType("float32", (2, N, 3, 8)),) * 3,
    ),
    "heads in the batch": (
        lambda q, k, v, m: ops.dot_general(
            ops.softmax(
                ops.add(
                    ops.dot_general(q, k, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(2,), rhs_contract=(1,)), m
                )
            ),
            v, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(2,), rhs_contract=(1,),
        ),
        (
            TensorType("float32", (6, N, 8)),
            TensorType("float32", (6, 8, N)),
            TensorType("float32", (6, N, 5)),
            TensorType("float32", (6, N, N)),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str) -> None:
    build, types = ATTENTIONS[name]
    names = recognised(build, *types)
    assert "attention" in names and not {"softmax", "dot_general", "isnan"} & set(names)


def test_attention_whose_weights_are_read_stays() -> None:
    def build(q: ir.Value, k: ir.Value, v: ir.Value) -> ir.Value:
        p = ops.softmax(scores(q, k))
        return ops.mul(mixed(p, v), ops.reduce(p, kind="sum", axes=(3,), keepdims=True))

    assert "attention" not in recognised(build, HEADS, HEADS, HEADS)


@pytest.mark.parametrize(
    "build",
    [
        lambda q, k, v, f: mixed(ops.softmax(ops.mul(ops.mul(scores(q, k), f), f)), v),
        lambda q, k, v, f: mixed(ops.softmax(ops.mul(ops.add(scores(q, k), f), f)), v),
        lambda q, k, v, f: mixed(
            ops.softmax(ops.mul(scores(q, k), ops.reduce(q, kind="max", axes=(3,), keepdims=True))), v
        ),
    ],
    ids=["two factors", "a factor of a sum", "a factor of each query"],
)
def test_attention_with_other_factors_stays(build: Build) -> None:
    assert "attention" not in recognised(build, HEADS, HEADS, HEADS, TensorType("float32", (3, 1, 1)))


def test_attention_with_rows_that_another_mask_hides_stays() -> None:
    def build(q: ir.Value, k: ir.Value, v: ir.Value) -> ir.Value:
        return mixed(without_hidden_rows(ops.softmax(scores(q, k)), hidden()), v)

    assert "attention" not in recognised(build, QUERIES, KEYS, KEYS)


def test_a_multiplication_by_a_plain_tanh_is_no_mish() -> None:
    """As an LSTM's gates have it: what is under the tanh is no softplus of anything."""
    assert recognised(lambda x, y: ops.mul(x, ops.tanh(y)), ROWS, ROWS) == ["tanh", "mul"]
