"""Operators of com.microsoft and ai.onnx.ml against ONNX Runtime: one small node each, evaluated without a compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from burn.importers.onnx import import_onnx
from tests.importers.reference import evaluate

MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
RNG = np.random.default_rng(7)
FLOAT, INT64, UINT8, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8, TensorProto.INT32


@dataclass
class NodeCase:
    """One node: its operands (None for one left out), the types of the outputs asked for, and how exact it is."""

    op: str
    operands: Sequence[np.ndarray | None]
    domain: str = MICROSOFT
    outputs: Sequence[int | None] = (FLOAT,)
    constant: Sequence[int] = ()  # operands that must be initializers in the runtime
    steps: int = 0  # quantised results may differ by so many steps
    tolerance: float = 1e-4
    label: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        names = [f"i{i}" if a is not None else "" for i, a in enumerate(self.operands)]
        results = [f"o{i}" if t is not None else "" for i, t in enumerate(self.outputs)]
        arrays = {f"i{i}": a for i, a in enumerate(self.operands) if a is not None}
        fixed = {f"i{i}" for i in self.constant}
        graph = helper.make_graph(
            [helper.make_node(self.op, names, results, domain=self.domain, **self.attributes)],
            "g",
            [_value(n, a) for n, a in arrays.items() if n not in fixed],
            [
                helper.make_tensor_value_info(n, t, None)
                for n, t in zip(results, self.outputs, strict=True)
                if t is not None
            ],
            [onnx.numpy_helper.from_array(a, n) for n, a in arrays.items() if n in fixed],
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid(ML, 3)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def feeds(self) -> dict[str, np.ndarray]:
        return {f"i{i}": a for i, a in enumerate(self.operands) if a is not None and i not in self.constant}


def _value(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
    return RNG.integers(0, high, shape).astype(dtype)


def u8(*shape: int) -> np.ndarray:
    return ints(255, *shape, dtype=np.uint8)


def scale(x: float) -> np.ndarray:
    return np.array(x, np.float32)


POINT, NIL = np.array(100, np.uint8), np.array(0, np.uint8)


def fused() -> Iterator[NodeCase]:
    yield NodeCase("Gelu", [f(3, 4)])
    yield NodeCase("BiasGelu", [f(3, 4), f(4)])
    yield NodeCase("FastGelu", [f(3, 4), f(4)])
    yield NodeCase("QuickGelu", [f(3, 4)])
    yield NodeCase("FusedMatMul", [f(2, 4, 3), f(2, 5, 4)], attributes={"transA": 1, "transB": 1, "alpha": 0.5})
    gemm = {"transA": 1, "alpha": 0.5, "beta": 2.0, "activation": "Relu"}
    yield NodeCase("FusedGemm", [f(4, 3), f(4, 5), f(5)], attributes=gemm)
    conv = {"kernel_shape": [3, 3], "activation": "LeakyRelu", "activation_params": [0.1]}
    yield NodeCase("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)], attributes=conv)
    skips = (FLOAT, None, None, FLOAT)
    yield NodeCase("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)], outputs=skips)
    yield NodeCase("SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8)], outputs=skips)
    yield NodeCase("SimplifiedLayerNormalization", [f(2, 3, 8), f(8)], domain="", attributes={"axis": -1})
    tables = [f(10, 8), f(6, 8), f(2, 8), f(8), f(8), np.array([[1, 1, 0], [1, 1, 1]], np.int32)]
    yield NodeCase("EmbedLayerNormalization", [ints(10, 2, 3), ints(2, 2, 3), *tables], outputs=(FLOAT, INT32))


def attention() -> Iterator[NodeCase]:
    x, w, b = f(2, 3, 8), f(8, 24), f(24)
    flags = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    two = {"num_heads": 2}
    causal = {**two, "unidirectional": 1}
    yield NodeCase("Attention", [x, w, b], label="plain", attributes=two)
    yield NodeCase("Attention", [x, w, b, flags], label="mask", attributes=causal)
    yield NodeCase("Attention", [x, w, b, np.array([2, 3], np.int32)], label="lengths", attributes=two)
    past = [x, w, b, None, f(2, 2, 2, 4, 4)]
    yield NodeCase("Attention", past, label="past", outputs=(FLOAT, FLOAT), attributes=causal)
    wide = np.array([[1, 1, 0, 1, 1], [1] * 5], np.int32)
    yield NodeCase("MultiHeadAttention", [x, f(2, 5, 8), f(2, 5, 8), b, wide], label="mask", attributes=two)
    past = [x, x, x, None, None, f(1, 2, 3, 7), f(2, 2, 4, 4), f(2, 2, 4, 4)]
    yield NodeCase("MultiHeadAttention", past, label="past", outputs=(FLOAT,) * 3, attributes=two)
    yield NodeCase("RotaryEmbedding", [x, ints(6, 2, 3, dtype=np.int64), f(10, 2), f(10, 2)], attributes=two)
    turned = [f(2, 2, 3, 4), np.array([2]), f(10, 2), f(10, 2)]
    yield NodeCase("RotaryEmbedding", turned, label="offset", attributes={"interleaved": 1})
    groups = {"num_heads": 4, "kv_num_heads": 2}
    caches = [f(1, 2, 4, 16), f(1, 2, 4, 16), np.array([6], np.int32), np.array(7, np.int32)]
    grouped = [f(1, 3, 64), f(1, 3, 32), f(1, 3, 32), *caches]
    yield NodeCase("GroupQueryAttention", grouped, label="past", outputs=(FLOAT,) * 3, attributes=groups)
    caches = [f(2, 2, 4, 16), f(2, 2, 4, 16), np.array([4, 2], np.int32), np.array(5, np.int32), f(20, 8), f(20, 8)]
    grouped = [f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), *caches]
    rotary = {**groups, "do_rotary": 1}
    yield NodeCase("GroupQueryAttention", grouped, label="ragged", outputs=(FLOAT,) * 3, attributes=rotary)
    caches = [f(2, 2, 0, 16), f(2, 2, 0, 16), np.array([4, 4], np.int32), np.array(5, np.int32), f(20, 8), f(20, 8)]
    window = {**rotary, "local_window_size": 2, "softcap": 3.0}
    packed = [f(2, 5, 128), None, None, *caches]
    yield NodeCase("GroupQueryAttention", packed, label="window", outputs=(FLOAT,) * 3, attributes=window)


def quantised() -> Iterator[NodeCase]:
    def case(op: str, operands: list[np.ndarray], constant: Sequence[int] = (), **attributes: Any) -> NodeCase:
        return NodeCase(op, operands, outputs=(UINT8,), constant=constant, steps=1, attributes=attributes)

    x, y = u8(3, 4), u8(3, 4)
    third, one = [scale(0.1), POINT], (1, 2, 3, 4)
    yield case("QLinearAdd", [x, *third, y, scale(0.2), POINT, scale(0.3), POINT])
    yield case("QLinearMul", [x, *third, y, scale(0.02), POINT, scale(0.3), POINT])
    yield case("QLinearSigmoid", [x, *third, scale(0.004), NIL], one)
    yield case("QLinearLeakyRelu", [x, *third, *third], one, alpha=0.2)
    yield case("QLinearGlobalAveragePool", [u8(1, 3, 4, 4), *third, *third])
    yield case("QLinearSoftmax", [x, *third, scale(0.004), NIL], one, axis=-1, opset=20)
    yield case("QLinearConcat", [*third, x, *third, y, scale(0.2), POINT], (0, 1, 3, 4, 6, 7), axis=1)
    gemm = [x, *third, u8(5, 4), np.abs(f(5)), u8(5), ints(100, 5), scale(3.0), POINT]
    yield case("QGemm", gemm, transB=1, alpha=1.0)
    yield NodeCase("MatMulIntegerToFloat", [x, u8(4, 5), scale(0.1), f(5), POINT, u8(5), f(5)])
    yield NodeCase("DynamicQuantizeMatMul", [f(3, 4), u8(4, 5), f(5), u8(5), f(5)], tolerance=5e-2)
    for zeros in (None, u8(6 * 2)):
        weight = [u8(6, 3, 8), np.abs(f(18)), zeros]
        bits = {"K": 40, "N": 6, "bits": 4, "block_size": 16}
        yield NodeCase("MatMulNBits", [f(3, 40), *weight], constant=(1, 2, 3), tolerance=1e-3, attributes=bits)
    wide = {"K": 40, "N": 6, "bits": 8, "block_size": 32}
    weight = [u8(6, 2, 32), np.abs(f(12)), u8(12), None, f(6)]
    operands = [f(2, 3, 40), *weight]
    yield NodeCase("MatMulNBits", operands, constant=(1, 2, 3, 5), label="bytes", tolerance=1e-3, attributes=wide)
    weight = [u8(6, 2, 16), np.abs(f(12)), f(12)]
    small = {**wide, "bits": 4}
    yield NodeCase("MatMulNBits", [f(40), *weight], constant=(1, 2, 3), label="floats", attributes=small)


def trees(count: int, depth: int, targets: int) -> tuple[dict[str, list], list[list]]:
    """Full trees of random splits, and the leaves' votes: trees, nodes, targets, weights."""
    nodes: dict[str, list] = {
        f"nodes_{k}": [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    votes: list[list] = [[], [], [], []]
    for tree in range(count):
        for number in range(2 ** (depth + 1) - 1):
            leaf = number >= 2**depth - 1
            mode = "LEAF" if leaf else ("BRANCH_LEQ", "BRANCH_GT", "BRANCH_LT")[tree % 3]
            children = (0, 0) if leaf else (2 * number + 1, 2 * number + 2)
            row = (tree, number, int(RNG.integers(4)), 0.0 if leaf else float(RNG.standard_normal()), mode, *children)
            for column, entry in zip(nodes.values(), row, strict=True):
                column.append(entry)
            for target in range(targets if leaf else 0):
                for column, entry in zip(votes, (tree, number, target, float(RNG.standard_normal())), strict=True):
                    column.append(entry)
    return nodes, votes


def forest(prefix: str, count: int, depth: int, targets: int) -> dict[str, Any]:
    nodes, votes = trees(count, depth, targets)
    names = (f"{prefix}_treeids", f"{prefix}_nodeids", f"{prefix}_ids", f"{prefix}_weights")
    return {**nodes, **dict(zip(names, votes, strict=True))}


def classical() -> Iterator[NodeCase]:
    def case(op: str, x: np.ndarray, label: str = "", labels: bool = False, **attributes: Any) -> NodeCase:
        outputs = (INT64, FLOAT) if labels else (FLOAT,)
        return NodeCase(op, [x], ML, outputs, label=label, tolerance=1e-4, attributes=attributes)

    x = f(20, 4)
    for kind in ("NONE", "LOGISTIC", "SOFTMAX"):
        linear = {"coefficients": f(8).tolist(), "intercepts": [0.1, 0.2], "targets": 2}
        yield case("LinearRegressor", x, kind, post_transform=kind, **linear)
        three = {"coefficients": f(12).tolist(), "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [5, 7, 9]}
        yield case("LinearClassifier", x, kind, labels=True, post_transform=kind, **three)
    for kind in ("MAX", "L1", "L2"):
        yield case("Normalizer", np.abs(x), kind, norm=kind)
    yield case("Scaler", x, offset=[1.0, 2.0, 3.0, 4.0], scale=[2.0, 3.0, 4.0, 5.0])
    holes = np.where(x > 1, np.float32(np.nan), x)
    yield case("Imputer", holes, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    keys = np.array([1, 3, 9, 2])
    yield case("LabelEncoder", keys, keys_int64s=[1, 2, 3], values_floats=[0.1, 0.2, 0.3], default_float=-1.0)
    yield case("OneHotEncoder", keys, cats_int64s=[1, 2, 3], zeros=1)
    for kind in ("SUM", "AVERAGE", "MIN", "MAX"):
        own = forest("target", 5, 3, 2)
        yield case(
            "TreeEnsembleRegressor", x, kind, n_targets=2, aggregate_function=kind, base_values=[0.5, 0.2], **own
        )
    for kind in ("NONE", "SOFTMAX", "LOGISTIC"):
        own = {**forest("class", 5, 3, 3), "classlabels_int64s": [3, 1, 2]}
        yield case("TreeEnsembleClassifier", x, kind, labels=True, post_transform=kind, **own)
    for kind in ("NONE", "LOGISTIC"):
        own = {**forest("class", 5, 3, 1), "classlabels_int64s": [0, 1]}
        yield case("TreeEnsembleClassifier", x, f"binary {kind}", labels=True, post_transform=kind, **own)
    for kind, numbers in (
        ("RBF", [0.5, 0, 3]),
        ("POLY", [0.5, 1, 3]),
        ("LINEAR", [0, 0, 0]),
        ("SIGMOID", [0.1, 0.2, 0]),
    ):
        shape = {"kernel_type": kind, "kernel_params": [float(n) for n in numbers], "rho": [0.3]}
        vectors = {"support_vectors": f(20).tolist(), "coefficients": f(5).tolist(), "n_supports": 5}
        yield case("SVMRegressor", x, kind, **shape, **vectors)
        for counts in ([2, 3, 2], [3, 4]):
            classes, supports = len(counts), sum(counts)
            own = {
                "support_vectors": f(supports * 4).tolist(),
                "coefficients": f(supports * (classes - 1)).tolist(),
                "vectors_per_class": counts,
                "classlabels_ints": list(range(classes)),
            }
            offsets = {**shape, "rho": [0.3] * (classes * (classes - 1) // 2)}
            yield case("SVMClassifier", x, f"{kind} {classes}", labels=True, **offsets, **own)


CASES = [*fused(), *attention(), *quantised(), *classical()]


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c.op} {c.label}".strip()) for c in CASES])
def test_as_onnx_runtime(case: NodeCase) -> None:
    proto = case.model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, case.feeds())
    results = evaluate(import_onnx(proto), case.feeds())
    assert len(results) == len(wanted)
    for have, want in zip(results.values(), map(np.asarray, wanted), strict=True):
        assert (have.dtype, have.shape) == (want.dtype, want.shape)
        if case.steps:
            assert np.abs(have.astype(int) - want.astype(int)).max() <= case.steps
        else:
            np.testing.assert_allclose(have, want, rtol=case.tolerance * 10, atol=case.tolerance)
