"""Contractions."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..values import Reject, Value
from .registry import step

TYPES = (np.float32, np.float64, np.float16, np.int32, np.int64)


def left_side(value: Value) -> bool:
    return value.dtype in TYPES and value.rank >= 1


@step(6)
def matmul(graph: Graph) -> None:
    value = graph.pick(left_side)
    graph.choice([by_constant, by_constant, by_constant, of_constant, by_itself, by_other])(graph, value)


def by_constant(graph: Graph, value: Value) -> None:
    inner = value.dims[-1]
    if not inner:
        raise Reject("a size varies")
    shape = [inner, graph.choice([1, 2, 5, 8, 17, 33])] if graph.chance(0.85) else [inner]
    if graph.chance(0.15):
        shape = [graph.choice([1, 2, 3]), *shape]
    graph.node("MatMul", value, graph.numbers(shape, value.dtype))


def of_constant(graph: Graph, value: Value) -> None:
    inner = value.dims[-2] if value.rank >= 2 else None
    if not inner:
        raise Reject("a size varies")
    graph.node("MatMul", graph.numbers([graph.choice([1, 3, 9]), inner], value.dtype), value)


def by_itself(graph: Graph, value: Value) -> None:
    if value.rank < 2:
        raise Reject("rank")
    order = list(range(value.rank))
    order[-2:] = order[-1], order[-2]
    operands = [value.name, *graph.node("Transpose", value, perm=order)]
    graph.random.shuffle(operands)
    graph.node("MatMul", *operands)


def by_other(graph: Graph, value: Value) -> None:
    graph.node("MatMul", value, graph.pick(lambda v: v.dtype == value.dtype and v.rank >= 1, 0.2))


@step(3)
def gemm(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype in (np.float32, np.float64) and v.rank == 2)
    turned, other_turned = graph.choice([0, 1]), graph.choice([0, 1])
    inner, columns = value.dims[0 if turned else 1], graph.choice([1, 3, 8, 19])
    if not inner:
        raise Reject("a size varies")
    weight = graph.numbers([columns, inner] if other_turned else [inner, columns], value.dtype)
    shape = graph.choice([[columns], [1, columns], [1], [], [1, 1]])
    bias = graph.numbers(shape, value.dtype) if graph.chance(0.7) else None
    scales = (
        {"alpha": graph.choice([0.5, 2.0, 0.0]), "beta": graph.choice([0.5, 0.0, 3.0])} if graph.chance(0.5) else {}
    )
    graph.node("Gemm", value, weight, bias, transA=turned, transB=other_turned, **scales)


@step(2)
def einsum(graph: Graph) -> None:
    one = graph.pick(lambda v: v.dtype in (np.float32, np.float64) and 1 <= v.rank <= 4 and not v.empty)
    other = graph.pick(lambda v: v.dtype == one.dtype and 1 <= v.rank <= 4 and not v.empty)  # SIGFPE otherwise
    letters = graph.random.sample("abcdefg", one.rank)
    named: list[str] = []
    for axis in range(other.rank):
        same = [letter for at, letter in enumerate(letters) if letter not in named and _equal(one, at, other, axis)]
        fresh = [letter for letter in "abcdefgh" if letter not in letters + named]
        named.append(graph.choice(same if same and graph.chance(0.7) else fresh))
    every = list(dict.fromkeys(letters + named))
    graph.random.shuffle(every)
    result = every[: graph.random.randint(0, min(len(every), 4))]
    graph.node("Einsum", one, other, equation=f"{''.join(letters)},{''.join(named)}->{''.join(result)}")


def _equal(one: Value, axis: int, other: Value, other_axis: int) -> bool:
    return all(a.shape[axis] == b.shape[other_axis] for a, b in zip(one.arrays, other.arrays, strict=True))


@step(2)
def integer_matmul(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype in (np.uint8, np.int8) and v.rank >= 2)
    inner = value.dims[-1]
    if not inner:
        raise Reject("a size varies")
    weight = graph.numbers([inner, graph.choice([1, 4, 17])], graph.choice([np.int8, np.uint8]))
    zero = np.asarray(graph.random.randint(0, 9), value.dtype) if graph.chance(0.5) else None
    graph.node("MatMulInteger", value, weight, zero)


@step(1)
def attention(graph: Graph) -> None:
    if graph.opset < 23:
        raise Reject("version")
    value = graph.pick(lambda v: v.dtype == np.float32 and v.rank == 4)
    graph.node("Attention", value, value, value, is_causal=graph.choice([0, 1]))
