"""The ONNX project's conformance tests as plain data that can be sent to a worker process. Enter at `load_cases`.

Making the node tests takes `onnx` seconds, so the loaded set is kept in `build/`, by the version of the package.
"""

from __future__ import annotations

import fcntl
import pickle
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from tests.covering import chosen

SUITES = ("node", "simple", "pytorch-operator", "pytorch-converted", "light")
CACHE = Path(__file__).parents[2] / "build" / "onnx_suite"


@dataclass(frozen=True)
class Case:
    """One test: a model, and pairs of inputs and expected outputs (arrays, lists for sequences, None for absent)."""

    name: str
    suite: str
    family: str  # what it is a test of: an operator
    model: bytes
    data_sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


def load_cases(suites: tuple[str, ...] = SUITES) -> list[Case]:
    """All tests of the suites, in a fixed order. A name is unique over all of them."""
    return [case for suite in suites for case in _kept(suite)]


def without_repeats(cases: list[Case]) -> list[Case]:
    """A covering subset of the cases: everything that `_traits` lists occurs in it as in the whole.

    An expansion repeats the cases of its operator in the form of other operators. Of the expansions of an operator there is one;
    all of them together have each operator and each element type that some expansion has."""
    goals = []
    for case in cases:
        model = onnx.load_from_string(case.model)
        if "_expanded" in case.name:
            traits = {
                ("expansion", case.family),
                *(("expansion", *trait) for trait in _traits_of_expansion(model.graph)),
            }
        else:
            traits = {(case.family, *trait) for trait in _traits(model)}
        goals.append({(case.suite, *trait) for trait in traits})
    return [cases[index] for index in chosen(goals)]


def _traits_of_expansion(graph: onnx.GraphProto) -> list[tuple[Any, ...]]:
    """Operators and the element types of inputs."""
    return [*(("operator", node.op_type) for node in graph.node), *(("type", t.elem_type) for t in _types(graph.input))]


def _traits(model: onnx.ModelProto) -> list[tuple[Any, ...]]:
    """The traits of an operator's case: its versions, each value of each attribute, and the set of present attributes.

    Also the present operands and results, and of each its element type (for a conversion, from which to which), its rank, and its
    axes of no or one element."""
    graph = model.graph
    types = [type_.elem_type for type_ in (*_types(graph.input), *_types(graph.output))]
    shapes = [tuple(min(dim.dim_value, 2) for dim in type_.shape.dim) for type_ in _types(graph.input)]
    converts = any(node.op_type == "Cast" for node in graph.node)
    traits: list[tuple[Any, ...]] = [
        ("versions", *((entry.domain, entry.version) for entry in model.opset_import)),
        *([("types", *types)] if converts else [("type", *pair) for pair in enumerate(types)]),
        *(("sizes", *pair) for pair in enumerate(shapes)),
        ("length", len(graph.node)),
    ]
    for node in graph.node:
        traits.append((node.op_type, "given", *(bool(name) for name in (*node.input, "", *node.output))))
        traits.append((node.op_type, "attributes", *sorted(attribute.name for attribute in node.attribute)))
        traits += [(node.op_type, _text(attribute)) for attribute in node.attribute]
    return traits


def _types(values: Iterable[onnx.ValueInfoProto]) -> list[onnx.TypeProto.Tensor]:
    return [value.type.tensor_type for value in values]


def _text(attribute: onnx.AttributeProto) -> str:
    """Of a graph or a tensor, the name alone."""
    whole = attribute.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.TENSOR)
    return str(attribute) if whole else attribute.name


def _kept(suite: str) -> list[Case]:
    """A suite's tests, made if they are not kept yet: once, even where two processes ask at the same time."""
    path = CACHE / f"{suite}-{onnx.__version__}.pickle"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with open(path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                made = [_case(test, suite) for test in _tests(suite)]
                made.sort(key=lambda case: case.name)
                part = path.with_suffix(".part")
                part.write_bytes(pickle.dumps(made))
                part.replace(path)
    return pickle.loads(path.read_bytes())


def _tests(suite: str) -> list[Any]:
    with warnings.catch_warnings():  # the generators provoke overflow and division by zero on purpose
        warnings.simplefilter("ignore")
        return load_model_tests(kind="real" if suite == "light" else suite)


def _case(test: Any, suite: str) -> Case:
    if test.model is not None:
        model = test.model
        data_sets = [([_value(v) for v in a], [_value(v) for v in b]) for a, b in test.data_sets]
    elif suite == "light":
        path = Path(onnx.__file__).parents[1] / test.url
        model = onnx.load(path)
        data_sets = [(_ramp_inputs(model), _read_values(path, model.graph.output, f"{path.stem}_output_{{}}.pb"))]
    else:
        folder = Path(test.model_dir)
        model = onnx.load(folder / "model.onnx")
        data_sets = []
        for data in sorted(folder.glob("test_data_set*")):
            pair = [_read_values(data / "x", values, f"{kind}_{{}}.pb") for kind, values in _sides(model)]
            data_sets.append((pair[0], pair[1]))
    return Case(test.name, suite, _family(test.name, model), model.SerializeToString(), data_sets, test.rtol, test.atol)


def _sides(model: onnx.ModelProto) -> list[tuple[str, Any]]:
    return [("input", model.graph.input), ("output", model.graph.output)]


def _read_values(beside: Path, values: Any, pattern: str) -> list[Any]:
    """The serialised values beside a file; there may be fewer than the graph has, for initialised inputs have none."""
    read = []
    for index, value in enumerate(values):
        path = beside.parent / pattern.format(index)
        if not path.exists():
            break
        kind = value.type.WhichOneof("value")
        proto = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(kind, onnx.TensorProto)()
        proto.ParseFromString(path.read_bytes())
        read.append(_value(proto))
    return read


def _ramp_inputs(model: onnx.ModelProto) -> list[np.ndarray]:
    """The inputs from which the expected outputs of the light models were computed: i / n over each input."""
    initialised = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for value in model.graph.input:
        if value.name not in initialised:
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    return inputs


def _value(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    return value if value is None else np.asarray(value)


def _family(name: str, model: onnx.ModelProto) -> str:
    """The operator under test: that of the only node, or what the name says for a test of an operator's expansion."""
    operators = [node.op_type for node in model.graph.node if node.op_type != "Constant"]
    if "_expanded" in name:
        return re.sub(r"^test_(training_)?([a-z0-9]+).*", r"\2 (expanded)", name)
    return operators[0] if len(set(operators)) == 1 else "+".join(sorted(set(operators))[:3])
