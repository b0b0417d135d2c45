"""Operators of com.microsoft that ONNX Runtime's optimisers write."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Graph
from ..values import Array, Reject, Value, known
from .registry import step

VENDOR = "com.microsoft"


def rows(value: Value) -> bool:
    return value.dtype == np.float32 and value.rank >= 2 and bool(value.dims[-1]) and not value.empty


def sequences(value: Value) -> bool:
    return rows(value) and value.rank == 3


def weight(graph: Graph, *shape: int) -> Array:
    return graph.numbers(shape, np.float32)


@step(2)
def skip_norm(graph: Graph) -> None:
    value = graph.pick(sequences)
    size, other = value.dims[-1] or 0, graph.pick(value.like)
    plain = graph.chance(0.4)
    operands: list[Any] = [value, other, weight(graph, size)]
    if not plain:
        operands.append(weight(graph, size) if graph.chance(0.7) else None)
    operands.append(weight(graph, size) if graph.chance(0.4) else None)
    outputs = graph.choice([1, 1, 4])
    op = "SkipSimplifiedLayerNormalization" if plain else "SkipLayerNormalization"
    names = graph.node(op, *operands, outputs=outputs, domain=VENDOR, epsilon=graph.choice([None, 1e-3]))
    if outputs == 4:  # mean and inverse deviation are for training; the sum is what models read
        graph.drop(*names[1:3])


@step(2)
def fused_matmul(graph: Graph) -> None:
    value = graph.pick(rows)
    turned = value.rank == 2 and graph.chance(0.3)
    inner = value.dims[-2 if turned else -1]
    if not inner:
        raise Reject("a size varies")
    other_turned, columns = graph.chance(0.5), graph.choice([1, 3, 8])
    operand = weight(graph, *((columns, inner) if other_turned else (inner, columns)))
    graph.node(
        "FusedMatMul",
        value,
        operand,
        domain=VENDOR,
        alpha=graph.choice([None, 0.5, 2.0]),
        transA=int(turned),
        transB=int(other_turned),
    )


@step(1)
def fused_gemm(graph: Graph) -> None:
    value = graph.pick(lambda v: rows(v) and v.rank == 2)
    columns = graph.choice([1, 4, 9])
    activation = graph.choice(["Relu", "Tanh", "Sigmoid"])
    bias = weight(graph, columns) if graph.chance(0.6) else None
    operand = weight(graph, value.dims[1] or 0, columns)
    graph.node("FusedGemm", value, operand, bias, domain=VENDOR, activation=activation)


@step(1)
def fused_convolution(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype == np.float32 and v.rank == 4 and bool(v.dims[1]) and not v.empty)
    wide, activation = graph.choice([1, 4]), graph.choice(["Relu", "Tanh", "Sigmoid"])
    operand = weight(graph, wide, value.dims[1] or 0, 3, 3)
    graph.node("FusedConv", value, operand, weight(graph, wide), domain=VENDOR, activation=activation, pads=[1] * 4)


@step(2)
def fused_activation(graph: Graph) -> None:
    value = graph.pick(rows)
    op = graph.choice(["Gelu", "BiasGelu", "FastGelu", "QuickGelu"])
    operands = [value, weight(graph, value.dims[-1] or 0)]
    with_bias = op == "BiasGelu" or (op == "FastGelu" and graph.chance(0.5))
    graph.node(op, *operands[: 1 + with_bias], domain=VENDOR, alpha=1.3 if op == "QuickGelu" else None)


@step(2)
def fused_attention(graph: Graph) -> None:
    value = graph.pick(sequences)
    size, heads = value.dims[-1] or 0, graph.choice([1, 2])
    if size % heads:
        raise Reject("heads")
    if graph.chance(0.5):
        causal = graph.choice([0, 0, 1])
        operand, bias = weight(graph, size, 3 * size), weight(graph, 3 * size)
        graph.node("Attention", value, operand, bias, domain=VENDOR, num_heads=heads, unidirectional=causal)
        return
    keys = graph.pick(lambda v: sequences(v) and v.dims[-1] == size and batches(v) == batches(value))
    bias = weight(graph, 3 * size) if graph.chance(0.4) else None
    graph.node("MultiHeadAttention", value, keys, keys, bias, domain=VENDOR, num_heads=heads)


def batches(value: Value) -> list[int]:
    return [array.shape[0] for array in value.arrays]


@step(1)
def embedded(graph: Graph) -> None:
    """Embeddings of words, of positions and perhaps of segments, with their sum's norm."""
    batch, length, size, words = graph.choice([1, 3]), graph.choice([1, 4, 7]), graph.choice([2, 8]), 11
    ids = graph.rng.integers(0, words, (batch, length)).astype(np.int32)
    segments = graph.rng.integers(0, 2, (batch, length)).astype(np.int32) if graph.chance(0.5) else None
    tables = [
        weight(graph, words, size),
        weight(graph, 8, size),
        weight(graph, 2, size) if segments is not None else None,
    ]
    scale, shift = weight(graph, size), weight(graph, size)
    names = graph.node(
        "EmbedLayerNormalization", ids, segments, *tables, scale, shift, outputs=2, domain=VENDOR, epsilon=1e-5
    )
    graph.drop(names[1])


@step(1)
def few_bits(graph: Graph) -> None:
    """Weights of 4 bits with scales by blocks."""
    value = graph.pick(rows)
    inner, columns, block = value.dims[-1] or 0, graph.choice([1, 3, 16]), 16
    count = -(-inner // block)
    packed = graph.rng.integers(0, 256, (columns, count, block // 2)).astype(np.uint8)
    scales = np.abs(weight(graph, columns * count)) + np.float32(0.1)
    zeros = graph.rng.integers(0, 256, columns * -(-count // 2)).astype(np.uint8) if graph.chance(0.5) else None
    graph.node("MatMulNBits", value, packed, scales, zeros, domain=VENDOR, K=inner, N=columns, bits=4, block_size=block)


@step(1)
def rotated(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype == np.float32 and v.rank == 4 and not v.empty)
    length, size = known(value.dims[2:])
    if size % 2:
        raise Reject("odd")
    angles = graph.rng.random((length, size // 2))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    graph.node(
        "RotaryEmbedding", value, np.zeros(1, np.int64), cos, sin, domain=VENDOR, interleaved=graph.choice([0, 1])
    )
