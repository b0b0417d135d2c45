"""Runtime decisions against a fixed program: ranks that depend on sizes, axes from data, zeros that stand for other sizes.

Every answer is ONNX Runtime's, in shape and numbers, or the run ends with an error: no other shape. The sweep draws such models;
BURN_SWEEP=3000 sets how many, BURN_SWEEP_SEED the first seed.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from burn.adapters.onnx import load_onnx
from burn.errors import BurnError, ModelError, RunError
from burn.exporters.onnx import export
from burn.importers.onnx import import_onnx
from tests.importers.models import model, node, tensor, value

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(11)
UNKNOWN = value("y", None)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def session(proto: onnx.ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def agrees(executable: Any, theirs: Any, feed: dict[str, np.ndarray]) -> bool:
    """True if burn's result is ONNX Runtime's; False if burn refuses. Fails for another result."""
    try:
        got = next(iter(executable.run(feed).values()))
    except BurnError:
        return False
    want = theirs.run(None, feed)[0]
    assert got.shape == want.shape and got.dtype == want.dtype, f"{got.shape} for {want.shape}"
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return True


def squeezes(shape: list[int | str], declared: list[int | str] | None) -> onnx.ModelProto:
    return model([node("Squeeze", "x", "y")], [value("x", shape)], [value("y", declared)])


# Squeeze without axes


def test_the_declared_rank_decides_what_squeeze_takes_away() -> None:
    proto = squeezes(["b", 4], ["n"])
    executable = load_onnx(proto.SerializeToString())
    assert agrees(executable, session(proto), {"x": numbers(1, 4)})
    with pytest.raises(RunError, match="takes away axis 0"):
        executable.run({"x": numbers(2, 4)})


def test_declared_names_decide_between_axes() -> None:
    proto = squeezes(["b", 1, "t"], ["b"])
    executable = load_onnx(proto.SerializeToString())
    assert agrees(executable, session(proto), {"x": numbers(5, 1, 1)})
    assert not agrees(executable, session(proto), {"x": numbers(1, 1, 5)})


def test_a_size_of_one_at_run_time_is_not_kept_silently() -> None:
    proto = squeezes(["b", 1, 4], None)
    executable = load_onnx(proto.SerializeToString())
    assert agrees(executable, session(proto), {"x": numbers(3, 1, 4)})
    with pytest.raises(RunError, match=r"b != 1 .*dims="):
        executable.run({"x": numbers(1, 1, 4)})
    fixed = load_onnx(proto.SerializeToString(), dims={"b": 1})
    assert agrees(fixed, session(proto), {"x": numbers(1, 1, 4)})


def test_later_nodes_decide_what_squeeze_takes_away() -> None:
    proto = model(
        [node("Squeeze", "x", "z"), node("Transpose", "z", "y", perm=[1, 0])],
        [value("x", ["b", "c", "t"])],
        [UNKNOWN],
    )
    executable = load_onnx(proto.SerializeToString())
    taken = [agrees(executable, session(proto), {"x": numbers(*s)}) for s in ((1, 3, 4), (3, 1, 4), (3, 4, 1))]
    assert sum(taken) == 1


# If


def branches(then: list[onnx.NodeProto], otherwise: list[onnx.NodeProto], after: list[onnx.NodeProto]) -> Any:
    """Relu of `then` where axis 1 of x [b, k, 4] is 1, else of `otherwise`; each makes `t` or `e` of x."""
    graphs = [
        helper.make_graph(nodes, name, [], [value(name, None)]) for nodes, name in ((then, "t"), (otherwise, "e"))
    ]
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s one", "d"),
        node("Equal", "d one", "c"),
        node("If", "c", "z", then_branch=graphs[0], else_branch=graphs[1]),
        *after,
    ]
    constants = [tensor("one", np.array([1])), tensor("axis", np.array([1])), tensor("first", np.array([0]))]
    return model(nodes, [value("x", ["b", "k", 4])], [UNKNOWN], constants, opset=17)


SQUEEZE = [node("Squeeze", "x axis", "t")]
SAME = [node("Identity", "x", "e")]


def test_the_branch_that_later_nodes_take() -> None:
    """torch's older exporter writes x.squeeze(1) so; what follows is made for the rank that the traced model had."""
    proto = branches(SQUEEZE, SAME, [node("Unsqueeze", "z first", "u"), node("Transpose", "u", "y", perm=[1, 0, 2])])
    executable = load_onnx(proto.SerializeToString())
    assert agrees(executable, session(proto), {"x": numbers(2, 1, 4)})
    with pytest.raises(RunError, match="different ranks"):
        executable.run({"x": numbers(2, 3, 4)})


def test_a_branch_that_cannot_be_imported_fails_when_it_is_taken() -> None:
    strange = [node("Gemm", "x x", "t")]
    proto = branches(strange, SAME, [node("Relu", "z", "y")])
    executable = load_onnx(proto.SerializeToString())
    x = numbers(2, 3, 4)
    np.testing.assert_array_equal(executable.run({"x": x})["y"], np.maximum(x, 0))
    with pytest.raises(RunError, match="then branch of this If cannot be imported: Gemm"):
        executable.run({"x": numbers(2, 1, 4)})


def test_neither_branch_can_be_imported() -> None:
    proto = branches([node("Gemm", "x x", "t")], [node("Gemm", "x x", "e")], [node("Relu", "z", "y")])
    with pytest.raises(ModelError) as caught:
        load_onnx(proto.SerializeToString())
    assert str(caught.value).count("Gemm") >= 2


def test_ranks_are_chosen_inside_of_branches() -> None:
    """The choice in the else branch is one that its own next node needs."""
    inner = helper.make_graph([node("Squeeze", "x axis", "it")], "it", [], [value("it", None)])
    keep = helper.make_graph([node("Identity", "x", "ie")], "ie", [], [value("ie", None)])
    otherwise = [
        node("Shape", "x", "s2"),
        node("Gather", "s2 first", "d2"),
        node("Equal", "d2 one", "c2"),
        node("If", "c2", "z2", then_branch=keep, else_branch=inner),
        node("Transpose", "z2", "e2", perm=[0, 2, 1]),
        node("Transpose", "e2", "e", perm=[0, 2, 1]),
    ]
    proto = branches([node("Identity", "x", "t")], otherwise, [node("Relu", "z", "y")])
    executable = load_onnx(proto.SerializeToString())
    assert agrees(executable, session(proto), {"x": numbers(1, 3, 4)})


# Exported models keep the checks


@pytest.mark.parametrize("nested", [False, True])
def test_exported_checks(nested: bool) -> None:
    proto = branches(SQUEEZE, SAME, [node("Relu", "z", "y")])
    if nested:  # the check is in a branch
        inner = helper.make_graph([node("Squeeze", "x", "q"), node("Relu", "q", "t")], "t", [], [value("t", None)])
        other = helper.make_graph([node("Neg", "x", "e")], "e", [], [value("e", None)])
        proto = model(
            [node("If", "c", "y", then_branch=inner, else_branch=other)],
            [value("x", ["b", "k", 4]), value("c", [], BOOL)],
            [UNKNOWN],
        )
    again = session(export(import_onnx(proto.SerializeToString())))
    right, wrong = {"x": numbers(2, 3, 4)}, {"x": numbers(2, 1, 4)}
    if nested:
        right, wrong = ({**feed, "c": np.array(True)} for feed in (right, wrong))
        np.testing.assert_array_equal(again.run(None, {**wrong, "c": np.array(False)})[0], -wrong["x"])
    np.testing.assert_array_equal(again.run(None, right)[0], np.maximum(right["x"], 0))
    with pytest.raises(Exception, match="check: "):
        again.run(None, wrong)


# Axes and sizes that data gives


@pytest.mark.parametrize(
    "op", ["ReduceSum", "ReduceMax", "ReduceL1", "ReduceMean", "ReduceLogSumExp", "ReduceSumSquare"]
)
@pytest.mark.parametrize("noop", [0, 1])
def test_axes_that_are_empty_at_run_time(op: str, noop: int) -> None:
    nodes = [node(op, "x a", "y", keepdims=1, noop_with_empty_axes=noop)]
    proto = model(nodes, [value("x", [2, 3]), value("a", ["k"], INT64)], [UNKNOWN])
    executable, theirs = load_onnx(proto.SerializeToString()), session(proto)
    axes = [[], [0], [1], [0, 1], [-1]]
    if (
        op != "ReduceSum" and noop
    ):  # the standard: each element is still reduced on its own; ONNX Runtime gives it unchanged
        x = numbers(2, 3)
        want = {"ReduceL1": np.abs(x), "ReduceSumSquare": x * x}.get(op, x)
        np.testing.assert_allclose(executable.run({"x": x, "a": np.zeros(0, np.int64)})["y"], want, rtol=1e-5)
        axes = axes[1:]
    for a in axes:
        assert agrees(executable, theirs, {"x": numbers(2, 3), "a": np.array(a, np.int64)})


def test_zero_in_a_target_is_another_size() -> None:
    nodes = [node("Shape", "z", "s"), node("Concat", "left s", "t", axis=0), node("Reshape", "x t", "y")]
    inputs = [value("x", ["a", "b", "c"]), value("z", ["n"])]
    proto = model(nodes, inputs, [UNKNOWN], [tensor("left", np.array([-1]))])
    executable, theirs = load_onnx(proto.SerializeToString()), session(proto)
    assert agrees(executable, theirs, {"x": numbers(2, 3, 4), "z": numbers(4)})
    with pytest.raises(RunError, match="which means size 1"):
        executable.run({"x": numbers(2, 2, 0), "z": numbers(0)})


def test_expand_to_minus_one_is_told_of() -> None:
    proto = model([node("Expand", "x s", "y")], [value("x", ["n", 3])], [UNKNOWN], [tensor("s", np.array([-1, 3]))])
    with pytest.raises(ModelError, match=r"\[-1, 3\] is not a shape"):
        load_onnx(proto.SerializeToString())


# The sweep

SIZES = ("a", "b", "c", 1, 1, 2, 3)


def drawn(rng: np.random.Generator) -> tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]:
    """A model whose shapes depend on data, and inputs for it."""
    rank = int(rng.integers(1, 5))
    shape = [SIZES[i] for i in rng.integers(0, len(SIZES), rank)]
    kind = str(rng.choice(["squeeze", "if", "reduce", "reshape"]))
    axis = int(rng.integers(0, rank))
    if kind == "if":
        shape[axis] = "a"
    inputs, constants, feeds = [value("x", shape)], [], []
    declared = None
    if kind == "squeeze":
        nodes = [node("Squeeze", "x", "z")]
        if rng.random() < 0.5:
            kept = [d for d in shape if d != 1 and rng.random() < 0.7]
            declared = [f"n{i}" for i in range(len(kept))]
    elif kind == "if":
        squeeze = helper.make_graph([node("Squeeze", "x axis", "t")], "t", [], [value("t", None)])
        same = helper.make_graph([node("Identity", "x", "e")], "e", [], [value("e", None)])
        nodes = [
            node("Shape", "x", "s", start=axis, end=axis + 1),
            node("Equal", "s one", "c"),
            node("If", "c", "z", then_branch=squeeze, else_branch=same),
        ]
        constants = [tensor("axis", np.array([axis])), tensor("one", np.array([1]))]
        declared = [None, ["n"] * (rank - 1), ["n"] * rank][int(rng.integers(0, 3))]
    elif kind == "reduce":
        op = str(rng.choice(["ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2"]))
        nodes = [node(op, "x axes", "z", keepdims=1)]
        inputs.append(value("axes", ["k"], INT64))
    else:
        last = [str(rng.choice(["s", "n"]))]
        nodes = [
            node("Shape", "x", "s", start=axis, end=axis + 1),
            node("Shape", "w", "n"),
            node("Concat", " ".join(["left", *last] if rng.random() < 0.7 else [*last, "left"]), "to", axis=0),
            node("Reshape", "x to", "z"),
        ]
        inputs.append(value("w", ["n"]))
        constants = [tensor("left", np.array([-1]))]
    if rng.random() < 0.5:
        nodes.append(node("Relu", "z", "y"))
    else:
        nodes.append(node("Transpose", "z", "y"))
    proto = model(nodes, inputs, [UNKNOWN], constants)
    if declared is not None:
        proto.graph.value_info.append(value("z", ["" if d == "n" else d for d in declared]))
    for _ in range(4):
        least = kind == "reduce"  # ONNX Runtime keeps the shape of an empty tensor, whatever the axes
        sizes = {name: int(rng.choice([int(least), 1, 1, 2, 5])) for name in "abcn"}
        feed: dict[str, np.ndarray] = {"x": numbers(*(d if isinstance(d, int) else sizes[d] for d in shape))}
        if kind == "reduce":
            few = rng.permutation(rank)[: int(rng.integers(0, rank + 1))]
            feed["axes"] = np.where(rng.random(len(few)) < 0.3, few - rank, few).astype(np.int64)
        if kind == "reshape":
            feed["w"] = numbers(int(rng.choice([0, 1, 2, feed["x"].size])))
        feeds.append(feed)
    return proto, feeds


def test_sweep() -> None:
    count, seed = int(os.environ.get("BURN_SWEEP", "12")), int(os.environ.get("BURN_SWEEP_SEED", "0"))
    answered = 0
    for s in range(seed, seed + count):
        proto, feeds = drawn(np.random.default_rng(s))
        executable, theirs = load_onnx(proto.SerializeToString()), session(proto)
        for feed in feeds:
            try:
                want = theirs.run(None, feed)[0]
            except Exception:  # burn may answer where ONNX Runtime takes no empty shape
                continue
            try:
                got = next(iter(executable.run(feed).values()))
            except RunError:
                continue
            assert got.shape == want.shape, f"seed {s}: {got.shape} for {want.shape}"
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=f"seed {s}")
            answered += 1
    assert answered > count, "most runs must be answered"


def test_the_ranks_of_outputs_decide_what_squeeze_takes_away() -> None:
    """As in AECMOS and PLCMOS: nothing is declared for Squeeze itself."""
    nodes = [node("Squeeze", "x", "z"), node("Sigmoid", "z", "y")]
    for shape, declared, x in (
        (["batch", 1, 2], ["batch"], numbers(1, 1, 2)),
        (["batch", 1], [], numbers(1, 1)),
        (["batch", 1, 2], ["batch", 2], numbers(3, 1, 2)),
    ):
        proto = model(nodes, [value("x", shape)], [value("y", declared)])
        assert agrees(load_onnx(proto.SerializeToString()), session(proto), {"x": x})
    wrong = model([node("Sigmoid", "x", "y")], [value("x", ["batch", 1])], [value("y", ["batch"])])
    assert load_onnx(wrong.SerializeToString()).run({"x": numbers(3, 1)})["y"].shape == (3, 1)
