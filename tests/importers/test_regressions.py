"""Regressions from random graphs and first users: small models against ONNX Runtime, numpy, or the specification."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from burn.adapters.onnx import load_onnx
from burn.errors import BurnError
from tests.importers.models import model, node, tensor, value

INT64, DOUBLE = TensorProto.INT64, TensorProto.DOUBLE
RNG = np.random.default_rng(7)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def run(proto: onnx.ModelProto, feed: dict[str, Any]) -> list[np.ndarray]:
    return list(load_onnx(proto.SerializeToString()).run(feed).values())


def same(proto: onnx.ModelProto, *feeds: dict[str, Any], atol: float = 1e-5) -> None:
    """burn's results are ONNX Runtime's, for every set of inputs."""
    session: Any = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    executable = load_onnx(proto.SerializeToString())
    for feed in feeds:
        got: list[Any] = list(executable.run(feed).values())
        for mine, theirs in zip(got, session.run(None, feed), strict=True):
            assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=atol)


def unknown(*names: str) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name) for name in names]


# Slice


@pytest.mark.parametrize("start", [-2, -9, -(2**63)])
@pytest.mark.parametrize("dims", [(5, 1), ("n", "m")])
@pytest.mark.parametrize("computed", [False, True])
def test_a_backward_slice_begins_no_earlier_than_the_first_element(start: int, dims: Any, computed: bool) -> None:
    """numpy's `x[-2::-1]` of one element is empty; ONNX clamps the start to 0."""
    bounds = {"start": np.array([start]), "end": np.array([-4]), "axes": np.array([-1]), "steps": np.array([-2])}
    proto = model(
        [node("Slice", "x start end axes steps", "y")],
        [value("x", dims), *([value("start", (1,), INT64)] if computed else [])],
        unknown("y"),
        [tensor(name, array) for name, array in bounds.items() if not (computed and name == "start")],
    )
    feed = {"start": bounds["start"]} if computed else {}
    same(proto, {"x": numbers(5, 1), **feed}, *([] if dims == (5, 1) else [{"x": numbers(2, 7), **feed}]))


# Sizes that something defines


@pytest.mark.parametrize("less", [1, 3])
@pytest.mark.parametrize("start", [False, True])
def test_a_bound_computed_of_a_size_counts_from_the_end_where_it_is_negative(less: int, start: bool) -> None:
    """`x[:n - 3]`, or `x[n - 3:]`, where n is a size of another tensor and may be smaller."""
    proto = model(
        [
            node("Shape", "of", "shape"),
            node("Sub", "shape less", "bound"),
            node("Slice", "x bound far axes" if start else "x zero bound axes", "y"),
        ],
        [value("x", ("k",)), value("of", ("n",))],
        unknown("y"),
        [
            tensor(name, np.array([number]))
            for name, number in {"less": less, "zero": 0, "far": 2**62, "axes": 0}.items()
        ],
    )
    same(proto, *({"x": numbers(k), "of": numbers(n)} for k in (5, 2, 1) for n in (0, 1, 2, 4, 9)))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pads_that_come_from_data(mode: str) -> None:
    """The result's sizes have names of their own: of sums of pads its strides were polynomials of hundreds of terms, at
    which LLVM worked for half a minute."""
    proto = model(
        [node("Pad", "x pads", "y", mode=mode)],
        [value("x", (2, 3, 4, "n")), value("pads", (8,), INT64)],
        unknown("y"),
    )
    (result,) = load_onnx(proto.SerializeToString()).outputs
    assert all(len(str(dim)) < 20 for dim in result.dims)
    pads = [[1, 2, 0, 3, 0, 1, 2, 1], [0, -1, 1, 2, 1, 0, -2, -1], [0] * 8]
    same(proto, *({"x": numbers(2, 3, 4, n), "pads": np.array(p)} for p, n in zip(pads, (5, 4, 7), strict=True)))


def test_a_size_may_be_all_that_is_wanted_of_an_op() -> None:
    proto = model(
        [node("Compress", "x chosen", "some", axis=0), node("Shape", "some", "y")],
        [value("x", (6, 2))],
        unknown("y"),
        [tensor("chosen", np.array([True, False, True, True]))],
    )
    same(proto, {"x": numbers(6, 2)})


def test_a_constant_choice_gives_a_known_size() -> None:
    """Later nodes need it: heads of an attention, weights of a convolution."""
    proto = model(
        [node("Compress", "x chosen", "y", axis=1)],
        [value("x", (2, 4))],
        unknown("y"),
        [tensor("chosen", np.array([True, False, True]))],
    )
    (result,) = load_onnx(proto.SerializeToString()).outputs
    assert tuple(result.dims) == (2, 2)
    same(proto, {"x": numbers(2, 4)})


# Contractions


def test_a_number_that_varies_in_shape_goes_into_the_weight() -> None:
    """The reset gate of a GRU whose first state is zero."""
    weights = [tensor("w", numbers(1, 9, 4)), tensor("r", numbers(1, 9, 3))]
    proto = model(
        [node("GRU", "x w r", "y h", hidden_size=3, direction="reverse", linear_before_reset=0)],
        [value("x", (2, 3, 4))],
        unknown("y", "h"),
        weights,
    )
    same(proto, {"x": numbers(2, 3, 4)})


def test_a_transposed_value_is_read_in_both_orders() -> None:
    nodes = [
        node("ConvTranspose", "x w", "c", kernel_shape=[3], pads=[0, 1]),
        node("Transpose", "c", "t", perm=[0, 2, 1]),
        node("MatMul", "c t", "s"),
        node("Mul", "s third", "m"),
        node("Softmax", "m", "p", axis=-1),
        node("MatMul", "p c", "y"),
    ]
    constants = [tensor("w", numbers(3, 3, 3)), tensor("third", np.float32(0.3))]
    proto = model(nodes, [value("x", ("n", 3, 8))], unknown("y"), constants)
    same(proto, {"x": numbers(2, 3, 8)}, {"x": numbers(1, 3, 8)}, atol=1e-4)


# Windows


@pytest.mark.parametrize(("strides", "pads"), [(2, [2, 1]), (3, [2, 1]), (2, [1, 1])])
def test_a_transposed_convolution_crops_part_of_a_stride(strides: int, pads: list[int]) -> None:
    """The kernel is then larger than the input of the convolution for that phase, which depends on runtime sizes."""
    made = node("ConvTranspose", "x w", "y", kernel_shape=[4], strides=[strides], pads=pads)
    proto = model([made], [value("x", (1, 1, "n"))], unknown("y"), [tensor("w", numbers(1, 2, 4))])
    same(proto, *({"x": numbers(1, 1, n)} for n in (1, 2, 5)))


@pytest.mark.parametrize("auto", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "strides", "longer"), [(1, 3, 2), (2, 4, 1), (4, 2, -3), (3, 2, 0)])
@pytest.mark.parametrize("dims", [(1, 2, 4), ("n", 2, 4)])
def test_the_length_of_a_transposed_convolution_is_given(
    auto: str, kernel: int, strides: int, longer: int, dims: Any
) -> None:
    """A result longer than the kernels reach has the additional elements at its end."""
    length = 3 * strides + kernel + longer
    made = node("ConvTranspose", "x w b", "y", strides=[strides], output_shape=[length], auto_pad=auto)
    constants = [tensor("w", numbers(2, 3, kernel)), tensor("b", numbers(3))]
    same(model([made], [value("x", dims)], unknown("y"), constants), {"x": numbers(1, 2, 4)})


def test_a_depth_of_runtime_size() -> None:
    """Of weights of a few bits K is an attribute, and the operand's last axis may have a name."""
    made = node("MatMulNBits", "x w s", "y", domain="com.microsoft", K=20, N=3, bits=4, block_size=16)
    packed = RNG.integers(0, 256, (3, 2, 8), dtype=np.uint8)
    proto = model([made], [value("x", ("n", "k"))], unknown("y"), [tensor("w", packed), tensor("s", numbers(6))])
    same(proto, {"x": numbers(2, 20)}, {"x": numbers(1, 20)}, atol=1e-4)
    with pytest.raises(BurnError, match="the last axis of A has K elements"):
        run(proto, {"x": numbers(2, 21)})


def test_a_transposed_convolution_of_which_pads_leave_nothing_is_refused() -> None:
    made = node("ConvTranspose", "x w", "y", kernel_shape=[4], strides=[2], pads=[3, 2])
    proto = model([made], [value("x", (1, 1, 1))], unknown("y"), [tensor("w", numbers(1, 2, 4))])
    with pytest.raises(BurnError, match="leave -1 elements"):
        run(proto, {})


@pytest.mark.parametrize("op", ["Conv", "AveragePool", "MaxPool"])
def test_a_window_larger_than_its_operand_is_refused(op: str) -> None:
    weight = [tensor("w", numbers(1, 1, 5, 5))] if op == "Conv" else []
    made = node(op, "x w" if op == "Conv" else "x", "y", kernel_shape=[5, 5])
    with pytest.raises(BurnError, match="larger than"):
        run(model([made], [value("x", (1, 1, 1, 1))], unknown("y"), weight), {"x": numbers(1, 1, 1, 1)})
    named = model(
        [made], [value("x", (1, 1, "h", "w")) if op != "Conv" else value("x", (1, 1, "h", 5))], unknown("y"), weight
    )
    executable = load_onnx(named.SerializeToString())
    assert executable.run({"x": numbers(1, 1, 5, 5)})["y"].shape == (1, 1, 1, 1)
    with pytest.raises(BurnError, match=r"shape|size"):
        executable.run({"x": numbers(1, 1, 4, 5)})


# Attributes and attention


def test_a_default_is_a_float32_as_a_given_attribute_is() -> None:
    proto = model([node("LeakyRelu", "x", "y")], [value("x", (2,), DOUBLE)], [value("y", (2,), DOUBLE)])
    (y,) = run(proto, {"x": np.array([-1.0, 2.0])})
    np.testing.assert_array_equal(y, [-float(np.float32(0.01)), 2.0])


def test_attention_over_a_named_number_of_features() -> None:
    proto = model([node("Attention", "x x x", "y")], [value("x", ("b", 2, "s", "d"))], unknown("y"), opset=23)
    same(proto, {"x": numbers(1, 2, 5, 3)}, {"x": numbers(2, 2, 1, 7)})


def test_integers_as_a_mask_are_added_to_the_scores() -> None:
    mask = np.array([[0, -4, 1], [2, 0, -9]], np.int32)
    inputs = [value("q", (1, 1, 2, 4)), value("k", (1, 1, 3, 4))]
    same_scores = [
        model([node("Attention", "q k k m", "y")], inputs, unknown("y"), [tensor("m", mask.astype(t))], opset=23)
        for t in (np.int32, np.float32)
    ]
    feed = {"q": numbers(1, 1, 2, 4), "k": numbers(1, 1, 3, 4)}
    (one,), (other,) = (run(proto, feed) for proto in same_scores)
    np.testing.assert_array_equal(one, other)


def test_attention_refuses_values_of_other_heads() -> None:
    inputs = [value("q", (1, 4, 2, 4)), value("k", (1, 2, 3, 4)), value("v", (1, 3, 3, 4))]
    with pytest.raises(BurnError, match="q, k and v must be"):
        load_onnx(model([node("Attention", "q k v", "y")], inputs, unknown("y"), opset=23).SerializeToString())


# Loops


def test_slices_are_stacked_where_the_memory_was_planned() -> None:
    carried, part, after, out = (value(name, None) for name in ("s", "p", "t", "o"))
    nodes = [node("Add", "s p", "a"), node("Tanh", "a", "t"), node("Mul", "t p", "o")]
    body = onnx.helper.make_graph(nodes, "body", [carried, part], [after, out])
    scan = node("Scan", "i x", "y z", body=body, num_scan_inputs=1, scan_input_axes=[2], scan_output_axes=[1])
    proto = model([scan, node("Neg", "z", "w")], [value("i", (1, 4)), value("x", (1, 4, 9))], unknown("y", "w"))
    same(proto, {"i": numbers(1, 4), "x": numbers(1, 4, 9)})


# Quantised


@pytest.mark.parametrize("op", ["QLinearAveragePool", "QLinearReduceMean", "QLinearWhere"])
@pytest.mark.parametrize("last", [0, 1])
def test_quantised_operators_of_onnxruntime(op: str, last: int) -> None:
    x = RNG.integers(0, 256, (2, 6, 5, 3), np.uint8)
    constants = [
        tensor("s", np.float32(0.1)),
        tensor("z", np.uint8(3)),
        tensor("t", np.float32(0.23)),
        tensor("u", np.uint8(5)),
    ]
    made = {
        "QLinearAveragePool": lambda: node(
            op, "x s z t u", "y", kernel_shape=[2, 3], pads=[1, 1, 0, 1], channels_last=last
        ),
        "QLinearReduceMean": lambda: node(op, "x s z t u", "y", axes=[1, 2], keepdims=last),
        "QLinearWhere": lambda: node(op, "c x s z k t u s z", "y"),
    }[op]()
    made.domain = "com.microsoft"
    if op == "QLinearWhere":
        constants += [tensor("c", x > 99), tensor("k", x[:1])]
    proto = model(
        [made], [value("x", x.shape, TensorProto.UINT8)], unknown("y"), constants, domains={"com.microsoft": 1}
    )
    try:
        session: Any = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        (want,) = session.run(None, {"x": x})
    except NoKernel:  # it has the operator's definition, and no code for it
        assert op == "QLinearReduceMean"
        exact = (0.1 * (x.astype(np.float64) - 3)).mean((1, 2), keepdims=last == 1)
        want = np.clip(np.round(exact / 0.23) + 5, 0, 255).astype(np.uint8)
    (got,) = run(proto, {"x": x})
    assert got.shape == want.shape and np.abs(got.astype(int) - want).max() <= 1 and (got != want).mean() < 0.02


# Branches


def branches(declared: list[Any] | None) -> onnx.ModelProto:
    """`x.squeeze(2)` as exporters write it: only where the size is 1."""

    def branch(made: onnx.NodeProto, constants: list[TensorProto]) -> onnx.GraphProto:
        return onnx.helper.make_graph([made], "branch", [], unknown(made.output[0]), constants)

    axis = tensor("axis", np.array([2]))
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape two", "size"),
        node("Equal", "size one", "single"),
        node(
            "If",
            "single",
            "z",
            then_branch=branch(node("Squeeze", "x axis", "s"), [axis]),
            else_branch=branch(node("Identity", "x", "i"), []),
        ),
        node("Relu", "z", "y"),
    ]
    constants = [tensor("two", np.array(2)), tensor("one", np.array(1))]
    made = model(nodes, [value("x", ("batch", 4, "t"))], unknown("y"), constants)
    if declared is not None:
        made.graph.value_info.append(value("z", declared))
    return made


def test_branches_of_different_ranks() -> None:
    several, single = np.abs(numbers(2, 4, 5)), np.abs(numbers(2, 4, 1))
    executable = load_onnx(branches(None).SerializeToString())
    np.testing.assert_array_equal(executable.run({"x": several})["y"], several)
    with pytest.raises(BurnError, match="different ranks"):
        executable.run({"x": single})
    declared = load_onnx(branches(["batch", 4]).SerializeToString())
    np.testing.assert_array_equal(declared.run({"x": single})["y"], single[:, :, 0])
    with pytest.raises(BurnError, match="different ranks"):
        declared.run({"x": several})
    fixed = load_onnx(branches(None).SerializeToString(), dims={"t": 1})
    np.testing.assert_array_equal(fixed.run({"x": single})["y"], single[:, :, 0])


# Shapes that depend on data


def test_bounds_of_a_slice_may_be_scalars_of_the_run() -> None:
    inputs = [value("x", ("n",)), value("start", (), INT64), value("end", (), INT64)]
    proto = model([node("Slice", "x start end", "y")], inputs, unknown("y"))
    (y,) = run(proto, {"x": np.arange(5, dtype=np.float32), "start": np.array(1), "end": np.array(3)})
    np.testing.assert_array_equal(y, [1, 2])


@pytest.mark.parametrize(("kind", "step"), [(INT64, 0), (TensorProto.FLOAT, 0.0), (TensorProto.FLOAT, np.nan)])
def test_a_range_that_never_ends_is_refused(kind: int, step: float) -> None:
    proto = model([node("Range", "a b c", "y")], [value(name, (), kind) for name in "abc"], unknown("y"))
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    executable = load_onnx(proto.SerializeToString())
    feed = {"a": np.array(0, dtype), "b": np.array(5, dtype)}
    np.testing.assert_array_equal(executable.run({**feed, "c": np.array(2, dtype)})["y"], [0, 2, 4])
    with pytest.raises(BurnError, match="range needs a step"):
        executable.run({**feed, "c": np.array(step, dtype)})


# Factors and contractions


@pytest.mark.parametrize(("op", "number"), [("Div", 0.0), ("Mul", np.inf), ("Mul", np.nan)])
def test_what_is_infinite_does_not_go_into_a_weight(op: str, number: float) -> None:
    """x . (w / 0) would be inf - inf."""
    factor = np.array([number, 3, 2], np.float32)
    proto = model(
        [node("Gemm", "x w", "p"), node(op, "p factor", "y")],
        [value("x", (6, 8))],
        unknown("y"),
        [tensor("w", numbers(8, 3)), tensor("factor", factor)],
    )
    same(proto, {"x": numbers(6, 8)})


# Sampling


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_cubic_samples_beyond_the_border(padding: str, aligned: int) -> None:
    """At the border each neighbour's index is clamped, not the coordinate between them."""
    attributes = {"mode": "cubic", "padding_mode": padding, "align_corners": aligned}
    proto = model(
        [node("GridSample", "x grid", "y", **attributes)],
        [value("x", (1, 2, 5, 6)), value("grid", (1, 9, 7, 2))],
        unknown("y"),
        opset=20,
    )
    same(proto, {"x": numbers(1, 2, 5, 6), "grid": RNG.uniform(-1.6, 1.6, (1, 9, 7, 2)).astype(np.float32)})


# Refused


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"max_skip_count": -1}, "-1 tokens cannot be left out"),
        ({"max_skip_count": 0, "weights": [1.0] * 9}, "9 weights for 2 n-grams"),
    ],
)
def test_n_grams_that_fit_nothing_are_refused(attributes: dict[str, Any], told: str) -> None:
    settled: dict[str, Any] = {"min_gram_length": 2, "max_gram_length": 2, "mode": "TFIDF", "pool_int64s": [2, 3, 5, 4]}
    settled |= {"ngram_counts": [0, 0], "ngram_indexes": [0, 1], **attributes}
    proto = model([node("TfIdfVectorizer", "x", "y", **settled)], [value("x", (12,), INT64)], unknown("y"))
    with pytest.raises(BurnError, match=told):
        load_onnx(proto.SerializeToString())


def test_n_grams_with_more_left_out_than_there_are_tokens() -> None:
    settled: dict[str, Any] = {"min_gram_length": 2, "max_gram_length": 2, "mode": "TF", "pool_int64s": [2, 3, 5, 4]}
    settled |= {"ngram_counts": [0, 0], "ngram_indexes": [0, 1], "max_skip_count": 2**31}
    proto = model([node("TfIdfVectorizer", "x", "y", **settled)], [value("x", (4,), INT64)], unknown("y"))
    (counts,) = run(proto, {"x": np.array([2, 5, 3, 4])})
    np.testing.assert_array_equal(counts, [1, 1])


def test_more_elements_than_a_named_size_has_are_refused() -> None:
    """Also where nothing reads them."""
    proto = model(
        [node("TopK", "x k", "v i"), node("Less", "v v", "y")], [value("x", ("n",))], unknown("y"), [tensor("k", [2])]
    )
    executable = load_onnx(proto.SerializeToString())
    with pytest.raises(BurnError, match="2 <= n"):
        executable.run({"x": numbers(1)})


# Indices of maxima


@pytest.mark.parametrize("attributes", [{"auto_pad": "SAME_LOWER"}, {"pads": [2, 1], "dilations": [2]}])
def test_the_place_of_the_lowest_number_is_in_the_image(attributes: dict[str, Any]) -> None:
    """Padding holds the lowest number as well, and comes first."""
    proto = model(
        [node("MaxPool", "x", "y place", kernel_shape=[3], **attributes)],
        [value("x", (2, 3, 8))],
        unknown("y", "place"),
    )
    same(proto, {"x": np.full((2, 3, 8), -np.inf, np.float32)}, {"x": numbers(2, 3, 8)})


def test_a_gradient_of_what_depends_on_it_is_refused() -> None:
    proto = model(
        [
            node("Gradient", "a b", "da db", domain="ai.onnx.preview.training", xs=["a", "b"], y="c"),
            node("Add", "da b", "c"),
        ],
        [value("a", (2,)), value("b", (2,))],
        unknown("c"),
        opset=12,
        domains={"ai.onnx.preview.training": 1},
    )
    with pytest.raises(BurnError, match="'c' depends on this node's own result"):
        load_onnx(proto.SerializeToString())


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_upsample_of_opset_1_scales_by_attributes(mode: str) -> None:
    nodes = [node("Upsample", "x", "y", height_scale=2.0, width_scale=3.0, mode=mode)]
    old = model(nodes, [value("x", (1, 2, 3, "w"))], [value("y", (1, 2, 6, "v"))], opset=1)
    newer = [node("Upsample", "x", "y", scales=[1.0, 1.0, 2.0, 3.0], mode=mode.replace("bi", ""))]
    now = model(newer, [value("x", (1, 2, 3, "w"))], [value("y", (1, 2, 6, "v"))], opset=7)
    x = np.random.default_rng(1).standard_normal((1, 2, 3, 5)).astype(np.float32)
    result = load_onnx(old.SerializeToString()).run({"x": x})["y"]
    assert result.shape == (1, 2, 6, 15)
    np.testing.assert_array_equal(result, load_onnx(now.SerializeToString()).run({"x": x})["y"])
