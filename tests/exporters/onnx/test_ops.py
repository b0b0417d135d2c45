"""Ops with attributes: views, windows, contractions, searching, control flow, with dynamic sizes and sizes 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burn.dialect import ops
from burn.dialect.compose import dim_value, number
from burn.dialect.control import If, Loop
from burn.dialect.dims import floordiv, symbol
from burn.dialect.mlir import ir
from burn.dialect.types import TensorType, numpy_dtype, type_of
from tests.exporters.onnx.building import agree, burn, close, exported, operators, ort, program

N = symbol("n")
RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def for_sizes(build: Any, sizes: Any, opset: int | None = None, tail: str = "", **types: str) -> list[str]:
    """One export, run with several sizes n of the first axis."""
    made = program(build, **(types or {"x": f"float32[n{tail}]"}))
    model = exported(made, opset)
    rest = tuple(int(d) for d in tail.split(",") if d)
    for n in sizes:
        close(ort(model, [floats(n, *rest)]), burn(made, [floats(n, *rest)]))
    return operators(model)


# ---- views -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start, step", [(0, 1), (1, 2), (2, 3)])
def test_slices_forwards(start: int, step: int) -> None:
    size = floordiv(N - start + step - 1, step)
    build = lambda x: ops.slice(x, starts=(start,), sizes=(size,), steps=(step,))  # noqa: E731
    for_sizes(build, [start, start + 1, 7, 13])


@pytest.mark.parametrize("step", [-1, -2, -3])
def test_slices_backwards(step: int) -> None:
    """To the first element too, whose predecessor has no index; and of nothing."""
    size = floordiv(N - 1, -step) + 1
    build = lambda x: ops.slice(x, starts=(N - 1,), sizes=(size,), steps=(step,))  # noqa: E731
    for_sizes(build, [0, 1, 2, 7, 12])


def test_a_slice_of_nothing() -> None:
    agree(lambda x: ops.slice(x, starts=(1, 0), sizes=(0, 3), steps=(-1, 1)), {"x": floats(2, 3)})


@pytest.mark.parametrize(
    "shape", [(N * 6,), (3, 2, N), (N, 1, 6), (N, 3, 2), (1, N, 6), (2, N * 3), (N, N * 0 + 6)], ids=str
)
def test_reshapes(shape: tuple) -> None:
    for_sizes(lambda x: ops.reshape(x, shape=shape), [0, 1, 5], tail=",6")


def test_a_reshape_between_symbols_is_computed() -> None:
    build = lambda x: ops.reshape(x, shape=(symbol("m") * 2, floordiv(N, 2)))  # noqa: E731
    made = program(build, x="float32[n, m]")
    model = exported(made)
    for n, m in ((2, 3), (4, 0), (0, 5)):
        close(ort(model, [floats(n, m)]), burn(made, [floats(n, m)]))


def test_pads_between_elements_and_by_symbols() -> None:
    def build(x: ir.Value) -> ir.Value:
        return ops.pad(x, number(2.5, "float32"), low=(1, N), high=(0, 2), interior=(2, 1))

    for_sizes(build, [1, 4], tail=",3")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "uint8"])
def test_counting(dtype: str) -> None:
    for_sizes(lambda x: ops.iota(shape=(2, N, 3), axis=1, dtype=dtype), [0, 1, 9])


def test_each_size_is_computed_once() -> None:
    def build(x: ir.Value) -> Any:
        total = (N * 2 + 1) * 3
        return [ops.broadcast_to(ops.reshape(number(1.0, "float32"), shape=(1,)), shape=(total,)) for _ in range(3)]

    kinds = for_sizes(build, [0, 4])
    assert kinds.count("Shape") == 1 and kinds.count("Mul") + kinds.count("Add") <= 4


def test_an_input_of_twice_a_size_defines_it() -> None:
    made = program(lambda x: ops.iota(shape=(symbol("k"),), axis=0), x="float32[2*k + 1]")
    assert ort(exported(made), [floats(9)])[0].tolist() == [0, 1, 2, 3]


# ---- reductions and windows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize(
    "options", [{}, {"reverse": True}, {"exclusive": True}, {"exclusive": True, "reverse": True}], ids=str
)
def test_running(kind: str, options: dict[str, bool]) -> None:
    for_sizes(lambda x: ops.cumulative(x, kind=kind, axis=0, **options), [1, 7], tail=",3")


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "uint32", "uint64"]
)
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_reduce(kind: str, dtype: str) -> None:
    x = RANDOM.integers(0, 4, (3, 5, 2)).astype(dtype)
    agree(lambda x: ops.reduce(x, kind=kind, axes=(1, -1)), {"x": x}, tolerance=1e-3)


@pytest.mark.parametrize("kind", ["any", "all"])
def test_reduce_truth(kind: str) -> None:
    agree(
        lambda x: ops.reduce(x, kind=kind, axes=(1,), keepdims=True), {"x": RANDOM.integers(0, 2, (6, 3)).astype(bool)}
    )


@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize(
    "window, strides, dilations, low, high",
    [
        ((1, 1, 3, 2), (1, 1, 2, 1), (1, 1, 1, 1), (0, 0, 1, 0), (0, 0, 1, 1)),
        ((1, 1, 2, 2), (1, 1, 1, 3), (1, 1, 2, 1), (0, 0, 0, 0), (0, 0, 0, 0)),
        ((1, 3, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), (0, 1, 0, 0), (0, 1, 0, 0)),
        ((2, 2, 2, 2), (1, 1, 1, 1), (1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0)),
        ((1, 1, 2, 1), (1, 1, 1, 1), (1, 1, 1, 1), (0, 0, 3, 0), (0, 0, 4, 0)),
    ],
)
def test_windows(kind: str, window: Any, strides: Any, dilations: Any, low: Any, high: Any) -> None:
    def build(x: ir.Value) -> ir.Value:
        return ops.window_reduce(x, kind=kind, window=window, strides=strides, dilations=dilations, low=low, high=high)

    for_sizes(build, [2, 3], tail=",4,5,6")


def test_windows_of_integers() -> None:
    options = {"window": (3,), "strides": (2,), "dilations": (1,), "low": (1,), "high": (1,)}
    for kind in ("sum", "max", "min"):
        agree(lambda x, k=kind: ops.window_reduce(x, kind=k, **options), {"x": RANDOM.integers(-9, 9, 11)})


# ---- contractions ------------------------------------------------------------------------------------------------------

DOTS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, tuple[int, ...]]]] = [
    ((3, 4), (4, 5), {"lhs_contract": (1,), "rhs_contract": (0,)}),
    ((4, 3), (5, 4), {"lhs_contract": (0,), "rhs_contract": (1,)}),
    ((2, 3, 4), (4, 5), {"lhs_contract": (2,), "rhs_contract": (0,)}),
    ((2, 3, 4), (2, 5, 4), {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (2,)}),
    ((3, 2, 4), (5, 4, 2), {"lhs_batch": (1,), "rhs_batch": (2,), "lhs_contract": (2,), "rhs_contract": (1,)}),
    ((3, 4, 2), (4, 2, 5), {"lhs_contract": (1, 2), "rhs_contract": (0, 1)}),
    ((3,), (3,), {"lhs_contract": (0,), "rhs_contract": (0,)}),
    ((3,), (5,), {}),
    ((0, 4), (4, 5), {"lhs_contract": (1,), "rhs_contract": (0,)}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
@pytest.mark.parametrize("lhs, rhs, axes", DOTS)
def test_contractions(lhs: Any, rhs: Any, axes: Any, dtype: str) -> None:
    feeds = {"a": RANDOM.integers(-4, 5, lhs).astype(dtype), "b": RANDOM.integers(-4, 5, rhs).astype(dtype)}
    wide = "int32" if dtype == "int8" else None
    agree(lambda a, b: ops.dot_general(a, b, dtype=wide, **axes), feeds)


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_convolutions(layout: str, dtype: str) -> None:
    x, w = RANDOM.integers(-4, 5, (2, 4, 7, 6)).astype(dtype), RANDOM.integers(-4, 5, (6, 2, 3, 2)).astype(dtype)
    if layout == "last":
        x, w = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(w.transpose(2, 3, 1, 0))
    options = {"strides": (2, 1), "dilations": (1, 2), "low": (1, 0), "high": (0, 2), "groups": 2, "layout": layout}
    agree(lambda x, w: ops.conv(x, w, **options), {"x": x, "w": w})


def test_convolution_padded_by_a_symbol() -> None:
    def build(x: ir.Value) -> ir.Value:
        weight = ops.full(shape=(1, 3, 2), dtype="float32", value=0.5)
        return ops.conv(x, weight, strides=(1,), dilations=(1,), low=(N,), high=(1,))

    for_sizes(build, [1, 3], tail=",3,4")


def test_transposed_convolution() -> None:
    options = {"strides": (2,), "dilations": (1,), "low": (1,), "high": (0,), "extra": (1,), "groups": 1}
    feeds = {"x": floats(2, 3, 5), "w": floats(3, 4, 3)}
    assert "ConvTranspose" in operators(agree(lambda x, w: ops.conv_transpose(x, w, **options), feeds))


@pytest.mark.parametrize("mask", ["none", "bool", "float", "repeated"])
@pytest.mark.parametrize("opset", [21, 23])
def test_attention(mask: str, opset: int) -> None:
    """A query that may see no key gives zeros, whole and decomposed."""
    masks = {
        "bool": np.array([[1, 0, 1, 1, 0], [0] * 5, [1] * 5], bool),
        "float": np.where(RANDOM.integers(0, 2, (2, 1, 3, 5)), floats(3, 5), -np.inf).astype(np.float32),
        "repeated": np.array([[1, 0, 1, 1, 0]], bool),
    }
    feeds = {"q": floats(2, 4, 3, 8), "k": floats(2, 2, 5, 8), "v": floats(2, 2, 5, 6)}
    if mask != "none":
        feeds["mask"] = masks[mask]
    made = agree(lambda q, k, v, m=None: ops.attention(q, k, v, m, scale=0.3, softcap=2.0), feeds, opset)
    assert ("Attention" in operators(made)) == (opset == 23 and mask != "repeated")


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved: bool) -> None:
    feeds = {"x": floats(2, 3, 5, 8), "cos": floats(2, 5, 3), "sin": floats(2, 5, 3)}
    for opset in (21, 23):
        agree(lambda x, c, s: ops.rotary_embedding(x, c, s, interleaved=interleaved), feeds, opset)


# ---- activations and normalisations ------------------------------------------------------------------------------------

ACTIVATIONS = {
    "relu": {}, "leaky_relu": {"alpha": 0.2}, "thresholded_relu": {"alpha": 0.7}, "elu": {"alpha": 1.3}, "selu": {},
    "celu": {"alpha": 0.6}, "hard_sigmoid": {"alpha": 0.3, "beta": 0.4}, "hard_swish": {}, "silu": {"alpha": 1.5},
    "gelu": {"approximate": "tanh"}, "softplus": {}, "mish": {}, "softsign": {}, "softmax": {"axis": 0}, "log_softmax": {},
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_activations(dtype: str) -> None:
    made = program(
        lambda x: [getattr(ops, name)(x, **options) for name, options in ACTIVATIONS.items()], x=f"{dtype}[n, 7]"
    )
    tolerance = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    for opset in (18, 21, 24):
        x = (3 * floats(5, 7)).astype(numpy_dtype(dtype))
        close(ort(exported(made, opset), [x]), burn(made, [x]), tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("opset", [18, 21, 23])
def test_normalisations(dtype: str, opset: int) -> None:
    """With a scale and bias, with neither, over the last axes and the channels."""

    def build(x: ir.Value, v: ir.Value, w: ir.Value) -> Any:
        return [
            ops.layer_norm(x, v, None), ops.layer_norm(x, None, None, axis=2), ops.rms_norm(x, v, epsilon=1e-3),
            ops.rms_norm(x, None), ops.instance_norm(x, w, w), ops.instance_norm(x, None, w), ops.lp_norm(x, axis=1),
            ops.group_norm(x, w, w, groups=3), ops.group_norm(x, None, None, groups=2), ops.lrn(x, size=3),
            ops.batch_norm(x, w, w, w, ops.mul(w, w)),
        ]  # fmt: skip

    feeds = {n: a.astype(dtype) for n, a in {"x": floats(2, 6, 3, 5), "v": floats(5), "w": floats(6)}.items()}
    agree(build, feeds, opset, {"float64": 1e-9, "float32": 1e-5, "float16": 4e-3}[dtype])


# ---- searching ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint32", "uint64", "int64"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_keeps_the_order_of_equals(dtype: str, descending: bool) -> None:
    x = RANDOM.integers(0, 4, (3, 17)).astype(dtype)
    if dtype == "uint64":
        x = x + np.uint64(2**63 - 2)
    made = program(lambda x: ops.sort(x, axis=1, descending=descending), x=f"{dtype}[3, 17]")
    for got, want in zip(ort(exported(made), [x]), burn(made, [x]), strict=True):
        assert (got == want).all()


def test_nonzero_defines_sizes() -> None:
    def build(x: ir.Value) -> Any:
        indices = ops.nonzero(ops.gt(x, number(0.0, "float32")), count="count")
        return indices, ops.iota(shape=(symbol("count") + 1,), axis=0)

    for_sizes(build, [0, 1, 9], tail=",2")


def test_unique() -> None:
    x = RANDOM.integers(0, 5, 23).astype(np.int32)
    for in_order in (True, False):
        agree(lambda x, s=in_order: ops.unique(x, count="count", sorted=s), {"x": x})


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter(reduction: str) -> None:
    feeds = {"x": floats(5, 3), "i": np.array([[0, 2, 1], [-1, 0, 3]]), "u": floats(2, 3)}
    agree(lambda x, i, u: ops.scatter_elements(x, i, u, axis=0, reduction=reduction), feeds)


def test_gather_with_small_indices() -> None:
    agree(lambda x, i: ops.gather(x, i, axis=1), {"x": floats(2, 5), "i": np.array([[4, 0], [2, 2]], np.uint8)})


def test_random_numbers_are_the_same() -> None:
    def build(key: ir.Value) -> Any:
        return ops.random_uniform(key, shape=(7, 3)), *ops.random_bits(key, shape=(5,))

    key = np.array([0xFFFFFFF1, 12345], np.uint32)
    made = program(build, key="uint32[2]")
    for got, want in zip(ort(exported(made), [key]), burn(made, [key]), strict=True):
        assert got.tobytes() == want.tobytes()


# ---- control flow ------------------------------------------------------------------------------------------------------


def test_branches_with_results_of_different_sizes() -> None:
    def build(x: ir.Value) -> Any:
        condition = ops.gt(ops.reduce(x, kind="sum", axes=(0,)), number(0.0, "float32"))
        made = If.create(condition, symbols=("m",), result_types=[TensorType("float32", (symbol("m"),))])
        for region, twice in zip(made.regions, (True, False), strict=True):
            with ir.InsertionPoint(region.blocks.append()):
                ops.yield_([ops.concat([x, x], axis=0) if twice else x])
        result = made.results[0]
        return result, ops.iota(shape=(symbol("m") * 2,), axis=0)

    made = program(build, x="float32[n]")
    model = exported(made)
    for x in (np.ones(3, np.float32), -np.ones(4, np.float32)):
        close(ort(model, [x]), burn(made, [x]))


def test_a_loop_that_stacks_and_stops() -> None:
    def build(x: ir.Value, limit: ir.Value) -> Any:
        types = [type_of(x), TensorType("float32", (symbol("steps"), N))]
        true = number(1, "bool")
        made = Loop.create(dim_value(N + 2), true, [x], scans=1, symbols=("steps",), result_types=types)
        arguments = [TensorType("int64", ()), TensorType("bool", ()), type_of(x)]
        block = made.regions[0].blocks.append(*[t.to_mlir() for t in arguments])
        with ir.InsertionPoint(block):
            _, _, state = block.arguments
            state = ops.add(state, state)
            small = ops.lt(ops.reduce(state, kind="max", axes=(0,)), limit)
            ops.yield_([small, state, ops.reshape(state, shape=(N,))])
        return list(made.results)

    made = program(build, x="float32[n]", limit="float32[]")
    model = exported(made)
    for n, limit in ((1, 3.0), (5, 1e9), (3, 0.0)):
        feeds = [np.ones(n, np.float32), np.array(limit, np.float32)]
        close(ort(model, feeds), burn(made, feeds))


def test_a_size_read_from_data() -> None:
    def build(x: ir.Value, k: ir.Value) -> ir.Value:
        ops.read_dim(k, symbol="k", position=1)
        return ops.broadcast_to(x, shape=(symbol("k"), 3))

    made = program(build, x="float32[3]", k="int32[2]")
    feeds = [floats(3), np.array([9, 4], np.int32)]
    close(ort(exported(made), feeds), burn(made, feeds))
