"""Operands and attributes that a file gives and no builder reads: the import is refused, and names each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from burn.errors import ModelError
from burn.importers.onnx import import_onnx
from tests.importers.reference import evaluate

MICROSOFT = "com.microsoft"
FLOAT = TensorProto.FLOAT


def model(*nodes: onnx.NodeProto, opset: int = 20, size: Any = 3, **constants: np.ndarray) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(n, FLOAT, [size, 3]) for n in ("x", "y")]
    outputs = [helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, None)]
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(list(nodes), "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9 if opset > 6 else 3)


def problems(made: onnx.ModelProto) -> list[str]:
    with pytest.raises(ModelError) as error:
        import_onnx(made)
    return [str(problem) for problem in error.value.problems]


def test_all_that_is_unread_is_listed_with_the_other_problems() -> None:
    """The check continues after a refused node, and inside branches."""
    inner = helper.make_graph(
        [helper.make_node("FastGelu", ["x"], ["inner"], "inside", domain=MICROSOFT, beta=3)],
        "branch",
        [],
        [helper.make_tensor_value_info("inner", FLOAT, None)],
    )
    nodes = [
        helper.make_node("Gelu", ["x", "y"], ["a"], "first", domain=MICROSOFT, nonsense=1.0),
        helper.make_node("Softmax", ["a"], ["b"], "second", axis=7),
        helper.make_node("If", ["flag"], ["c"], "third", then_branch=inner, else_branch=inner),
        helper.make_node("QuickGelu", ["a"], ["d"], "fourth", domain=MICROSOFT, alpha=1.0, text="t"),
    ]
    made = model(*nodes)
    made.graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    text = "\n".join(problems(made))
    for words in (
        "com.microsoft::Gelu (opset 1), node 'first', attribute 'nonsense'",
        "com.microsoft::Gelu (opset 1), node 'first': operand 1 ('y')",
        "Softmax (opset 20), node 'second', attribute 'axis'",
        "com.microsoft::FastGelu (opset 1), node 'inside', attribute 'beta'",
        "com.microsoft::QuickGelu (opset 1), node 'fourth', attribute 'text'",
    ):
        assert words in text


def test_a_default_that_is_written_out_changes_nothing() -> None:
    node = helper.make_node("Softmax", ["x"], ["z"], axis=-1)
    dropout = helper.make_node("Dropout", ["z"], ["w"], seed=5)
    import_onnx(model(node, dropout))


def test_functions_of_the_model_are_looked_into() -> None:
    body = [helper.make_node("QuickGelu", ["a"], ["b"], "inner", domain=MICROSOFT, steep=1)]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1)]
    function = helper.make_function("own", "Twice", ["a"], ["b"], body, imports)
    made = model(helper.make_node("Twice", ["x"], ["z"], domain="own"))
    made.functions.append(function)
    made.opset_import.append(helper.make_opsetid("own", 1))
    (text,) = problems(made)
    assert "QuickGelu" in text and "'steep'" in text


def test_what_is_folded_is_looked_at() -> None:
    """A node of constants alone: the rule that folds it reads as a builder does."""
    made = model(
        helper.make_node("Gather", ["c", "i"], ["g"], "fold", axis=0),
        helper.make_node("Gelu", ["g"], ["z"], "after", domain=MICROSOFT, other=1),
        c=np.arange(3, dtype=np.float32),
        i=np.array([1], np.int64),
    )
    assert len(problems(made)) == 1


def old_pow(**attributes: Any) -> onnx.ModelProto:
    node = helper.make_node("Pow", ["x", "e"], ["z"], **attributes)
    return model(node, opset=6, e=np.array([1, 2, 3], np.float32))


def test_pow_of_opset_6_aligns_its_exponent() -> None:
    x = np.random.default_rng(0).uniform(1, 2, (3, 3)).astype(np.float32)
    feeds = {"x": x, "y": x}
    exponent = np.array([1, 2, 3], np.float32)
    for attributes, wanted in (
        ({"broadcast": 1, "axis": 0}, x ** exponent[:, None]),
        ({"broadcast": 1, "axis": 1}, x**exponent),
        ({"broadcast": 1}, x**exponent),
    ):
        found = evaluate(import_onnx(old_pow(**attributes)), feeds)["z"]
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
