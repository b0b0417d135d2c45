"""Sequences and optionals as inputs, outputs and values of ONNX models, against the same in Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, TypeProto, helper

import burn
from burn.compiler import executable
from burn.dialect.text import parse_text, to_text
from burn.errors import InputError, ModelError, RunError
from burn.importers.onnx import import_onnx
from burn.runtime import Executable

F, I64, S, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL


def tensor(kind: int = F, shape: list | None = None) -> TypeProto:
    return helper.make_tensor_type_proto(kind, shape)


def seq(of: TypeProto) -> TypeProto:
    return helper.make_sequence_type_proto(of)


def opt(of: TypeProto) -> TypeProto:
    return helper.make_optional_type_proto(of)


def model(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, TypeProto], outputs: dict[str, TypeProto | None]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "sequences",
        [helper.make_value_info(name, type_) for name, type_ in inputs.items()],
        [helper.make_value_info(n, t) if t is not None else onnx.ValueInfoProto(name=n) for n, t in outputs.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def program(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, TypeProto], *outputs: str, **typed: TypeProto
) -> Executable:
    return executable(import_onnx(model(nodes, inputs, {**dict.fromkeys(outputs), **typed})))


node = helper.make_node


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def same(got: Any, want: Any) -> None:
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
    elif want is None:
        assert got is None
    else:
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


# ---- inputs and outputs ------------------------------------------------------------------------------------------------
VALUES: dict[str, tuple[TypeProto, list[Any]]] = {
    "sequence": (seq(tensor(F, ["n", 2])), [[], arrays((0, 2)), arrays((1, 2), (3, 2), (7, 2))]),
    "any rank": (seq(tensor()), [[], arrays((), (3,), (2, 0, 5))]),
    "optional": (opt(tensor(F, [4])), [None, *arrays((4,))]),
    "optional sequence": (opt(seq(tensor(F, [None]))), [None, [], arrays((2,), (5,))]),
    "strings": (seq(tensor(S, [None])), [[], [np.array(["a", "", "日本"], object), np.array([], object)]]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_pass_through(name: str, tmp_path: Path) -> None:
    type_, values = VALUES[name]
    made = import_onnx(model([node("Identity", ["x"], ["y"])], {"x": type_}, {"y": type_}))
    again = parse_text(to_text(made))
    assert to_text(again) == to_text(made) and again.input_containers == made.input_containers
    run = executable(again)
    run.artefact.save(tmp_path / "m.burn")
    for each in (run, burn.load(tmp_path / "m.burn")):
        for value in values:
            same(each(value), value)


@pytest.mark.parametrize(
    "type_, value, reason",
    [
        (seq(tensor(F, [2])), np.zeros(2, np.float32), "a sequence is a list of arrays"),
        (seq(tensor(F, [2])), arrays((2,), (3,)), r"at 1 has shape \[3\], must be \[2\]"),
        (seq(tensor(F, [2])), [np.zeros(2)], "at 0 has element type float64"),
        (opt(tensor(F, [2])), np.zeros(3, np.float32), r"must be \[2\]"),
        (seq(tensor(S, [1])), [np.array([3], object)], "at 0 holds a int"),
    ],
)
def test_wrong_values_are_named(type_: TypeProto, value: Any, reason: str) -> None:
    run = program([node("Identity", ["x"], ["y"])], {"x": type_}, "y")
    with pytest.raises(InputError, match=reason):
        run(value)


# ---- operators on lists ------------------------------------------------------------------------------------------------
SEQ = seq(tensor(F, [None, 3]))


def test_insert_erase_at_and_length() -> None:
    nodes = [
        node("SequenceInsert", ["x", "t", "i"], ["inserted"]),
        node("SequenceErase", ["inserted", "j"], ["erased"]),
        node("SequenceErase", ["inserted"], ["shorter"]),
        node("SequenceInsert", ["shorter", "t"], ["longer"]),
        node("SequenceAt", ["inserted", "j"], ["taken"]),
        node("ReduceSum", ["taken"], ["sum"], keepdims=0),
        node("SequenceLength", ["erased"], ["length"]),
    ]
    inputs = {"x": SEQ, "t": tensor(F, ["m", 3]), "i": tensor(I64, []), "j": tensor(I64, [])}
    run = program(nodes, inputs, "inserted", "erased", "longer", "taken", "sum", "length")
    t = arrays((4, 3), seed=9)[0]
    for count in (0, 1, 2, 5):
        x = arrays(*((k, 3) for k in range(count)))
        for i in (0, count, -count):
            want = list(x)
            want.insert(i + count if i < 0 else i, t)
            for j in (0, count, -1):
                inserted, erased, longer, taken, total, length = run(x, t, np.array(i), np.array(j))
                same(inserted, want)
                same(erased, [a for k, a in enumerate(want) if k != j % (count + 1)])
                same(longer, [*want[:-1], t])
                same(taken, want[j])
                assert abs(total - want[j].sum()) < 1e-4 and length == count
        with pytest.raises(RunError, match=f"index {count + 1} is out of range"):
            run(x, t, np.array(count + 1), np.array(0))
        with pytest.raises(RunError, match=f"index {count + 1} is out of range"):
            run(x, t, np.array(0), np.array(count + 1))


def test_split_and_concat() -> None:
    nodes = [
        node("SplitToSequence", ["x", "parts"], ["some"], axis=1),
        node("SplitToSequence", ["x", "size"], ["alike"], axis=0),
        node("SplitToSequence", ["x"], ["slices"], axis=0, keepdims=0),
        node("ConcatFromSequence", ["some"], ["joined"], axis=1),
        node("ConcatFromSequence", ["slices"], ["stacked"], axis=-1, new_axis=1),
    ]
    inputs = {"x": tensor(F, ["a", "b"]), "parts": tensor(I64, ["p"]), "size": tensor(I64, [])}
    run = program(nodes, inputs, "some", "alike", "slices", "joined", "stacked")
    for a, parts, size in ((1, [2, 0, 3], 1), (5, [4], 2), (7, [1, 1, 1], 10)):
        x = arrays((a, sum(parts)))[0]
        some, alike, slices, joined, stacked = run(x, np.array(parts), np.array(size))
        same(some, np.split(x, np.cumsum(parts)[:-1], 1))
        same(alike, [x[k : k + size] for k in range(0, a, size)])
        same(slices, list(x))
        same(joined, x)
        same(stacked, np.stack(list(x), -1))
    with pytest.raises(RunError, match="does not fit"):
        run(x, np.array([1, 1]), np.array(1))
    with pytest.raises(RunError, match="does not fit"):
        run(x, np.array([1, 1, 1]), np.array(0))
    join = program([node("ConcatFromSequence", ["x"], ["y"], axis=0)], {"x": SEQ}, "y")
    same(join(arrays((2, 3), (0, 3), (1, 3))), np.concatenate(arrays((2, 3), (0, 3), (1, 3))))
    with pytest.raises(RunError, match="no element to give"):
        join([])


def body(nodes: list[onnx.NodeProto], inputs: dict[str, TypeProto], outputs: dict[str, TypeProto]) -> onnx.GraphProto:
    taken, given = ([helper.make_value_info(n, t) for n, t in part.items()] for part in (inputs, outputs))
    return helper.make_graph(nodes, "body", taken, given)


def test_a_loop_appends() -> None:
    """An unknown number of iterations, an unknown number of elements: also many, in little memory."""
    step = body(
        [
            node("Identity", ["go"], ["on"]),
            node("Slice", ["x", "zero", "end"], ["part"]),
            node("Reshape", ["i", "one"], ["end"]),
        ],
        {"i": tensor(I64, []), "go": tensor(BOOL, []), "s": seq(tensor(F, ["k"]))},
        {"on": tensor(BOOL, []), "t": seq(tensor(F, ["k"]))},
    )
    step.node.insert(0, step.node.pop())
    step.node.append(node("SequenceInsert", ["s", "part"], ["t"]))
    constants = [node("Constant", [], [name], value_ints=[v]) for name, v in (("zero", 0), ("one", 1))]
    nodes = [
        *constants,
        node("SequenceEmpty", [], ["empty"]),
        node("Loop", ["n", "", "empty"], ["y"], body=step),
        node("SequenceLength", ["y"], ["length"]),
    ]
    run = program(nodes, {"x": tensor(F, ["m"]), "n": tensor(I64, [])}, "y", "length")
    x = arrays((6,))[0]
    for count in (0, 1, 5, 20_000):
        y, length = run(x, np.array(count))
        assert length == count
        same(y[:7], [x[:k] for k in range(min(count, 7))])


def test_map_walks_lists_together() -> None:
    add = body(
        [node("Add", ["a", "b"], ["c"]), node("Mul", ["c", "t"], ["d"])],
        {"a": tensor(F, ["k"]), "b": tensor(F, ["k"]), "t": tensor(F, [])},
        {"c": tensor(F, ["k"]), "d": tensor(F, ["k"])},
    )
    run = program(
        [node("SequenceMap", ["x", "y", "t"], ["sums", "products"], body=add)],
        {"x": seq(tensor(F, [None])), "y": seq(tensor(F, [None])), "t": tensor(F, [])},
        "sums",
        "products",
    )
    for shapes in ([], [(3,)], [(2,), (0,), (5,), (1,)]):
        x, y = arrays(*shapes), arrays(*shapes, seed=1)
        sums, multiplied = run(x, y, np.float32(3))
        same(sums, [a + b for a, b in zip(x, y, strict=True)])
        same(multiplied, [(a + b) * np.float32(3) for a, b in zip(x, y, strict=True)])
    with pytest.raises(RunError):
        run(arrays((2,), (2,)), arrays((2,)), np.float32(0))


def test_branches_that_differ_in_length() -> None:
    then = body([node("SequenceConstruct", ["x", "x"], ["s"])], {}, {"s": SEQ})
    otherwise = body([node("SequenceEmpty", [], ["s"])], {}, {"s": SEQ})
    run = program(
        [node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise), node("SequenceLength", ["y"], ["n"])],
        {"c": tensor(BOOL, []), "x": tensor(F, ["k", 3])},
        "y",
        "n",
    )
    x = arrays((2, 3))[0]
    for flag, want in ((True, [x, x]), (False, [])):
        y, n = run(np.array(flag), x)
        same(y, want)
        assert n == len(want)


def test_optionals() -> None:
    nodes = [
        node("OptionalHasElement", ["x"], ["has"]),
        node("If", ["has"], ["y"],
             then_branch=body([node("OptionalGetElement", ["x"], ["v"])], {}, {"v": tensor(F, [None])}),
             else_branch=body([node("Identity", ["d"], ["v"])], {}, {"v": tensor(F, [None])})),
    ]  # fmt: skip
    run = program(nodes, {"x": opt(tensor(F, [None])), "d": tensor(F, ["n"])}, "has", "y")
    d, x = arrays((2,), (5,))
    for given, want in ((None, d), (x, x)):
        has, y = run(given, d)
        assert has == (given is not None)
        same(y, want)
    get = program([node("OptionalGetElement", ["x"], ["y"])], {"x": opt(tensor(F, [None]))}, "y")
    with pytest.raises(RunError, match="no element to give"):
        get(None)
    some = program([node("Optional", ["x"], ["y"])], {"x": tensor(F, ["n"])}, y=opt(tensor(F, ["n"])))
    same(some(x), x)
    none = program([node("Optional", [], ["y"], type=tensor(F, [2]))], {"x": tensor(F, ["n"])}, y=opt(tensor(F, [2])))
    assert none(x) is None


def test_what_cannot_be_known_is_named() -> None:
    with pytest.raises(ModelError, match="the rank of a sequence's or an optional's elements is not known"):
        program([node("SequenceAt", ["x", "i"], ["y"])], {"x": seq(tensor()), "i": tensor(I64, [])}, "y")
    with pytest.raises(ModelError, match="does not fit into a sequence float32"):
        program([node("SequenceInsert", ["x", "t"], ["y"])], {"x": SEQ, "t": tensor(I64, [2])}, "y")
    run = program(
        [node("SequenceAt", ["x", "i"], ["y"])], {"x": seq(tensor(F, [None, None])), "i": tensor(I64, [])}, "y"
    )
    with pytest.raises(InputError, match="has shape"):
        run(arrays((2,)), np.array(0))


def test_exporters_refuse_them_by_name() -> None:
    from burn.exporters.onnx.export import export
    from burn.exporters.python.generate import generate

    made = model([node("Identity", ["x"], ["y"])], {"x": SEQ}, {"y": SEQ})
    with pytest.raises(ModelError, match="sequences and optionals as inputs"):
        export(import_onnx(made))
    with pytest.raises(burn.errors.CompileError, match="sequences and optionals as inputs"):
        generate(import_onnx(made))
