"""Files, their locations, and errors for programs that cannot be exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from burn.dialect import ops
from burn.dialect.compose import number
from burn.dialect.program import Program
from burn.dialect.spec import spec
from burn.dialect.text import to_text
from burn.dialect.types import numpy_dtype
from burn.dialect.weights import array_weight
from burn.errors import BurnError, ModelError
from burn.exporters.onnx import export, write
from burn.exporters.onnx.graph import NEWEST
from burn.loading import read_program
from tests.exporters.onnx.building import burn, close, exported, operators, ort, program


def weighted(array: np.ndarray, key: str = "layer.weight") -> Program:
    """x + a weight."""
    type_ = spec(f"{array.dtype.name}{list(array.shape)}")
    made = Program.create([("x", type_)])
    with made.building("layer"):
        stored = made.weights.add(array_weight(array), key)
        value = ops.weight(key=stored, shape=type_.shape, dtype=type_.dtype)
        result = ops.add(made.inputs[0], value)
    return made.finish([("y", result)])


def test_the_program_stays_as_it_is() -> None:
    made = program(lambda x: ops.gelu(ops.softmax(x, axis=0)), x="float64[n, 3]")
    before = to_text(made, locations=True)
    assert "Erf" in operators(exported(made, 18))
    assert to_text(made, locations=True) == before


def test_a_copy_can_be_compiled_and_the_program_exported_after() -> None:
    """Compiling folds constants and forgets them; the original's are its own."""
    made = weighted(np.ones((40,), np.float32))
    x = np.zeros(40, np.float32)
    for _ in range(2):
        close(burn(made, [x]), ort(exported(made), [x]))


@pytest.mark.parametrize("opset", [17, NEWEST + 1, 0])
def test_opsets_that_cannot_be_written(opset: int) -> None:
    with pytest.raises(ModelError, match=f"opset {opset} cannot be written"):
        export(program(lambda x: ops.exp(x), x="float32[3]"), opset)


@pytest.mark.parametrize("opset", range(18, NEWEST + 1))
def test_every_opset_is_valid(opset: int) -> None:
    model = exported(program(lambda x: ops.layer_norm(ops.gelu(x), None, None), x="float32[n, 3]"), opset)
    assert model.opset_import[0].version == opset
    assert model.ir_version == onnx.helper.find_min_ir_version_for(model.opset_import)


def test_everything_that_is_wrong_is_named_at_once() -> None:
    def build(x: Any, c: Any) -> Any:
        whole = ops.bitcast(x, dtype="int32")
        after = ops.add(whole, number(1, "int32"))  # depends on a failed op: not a problem of its own
        return ops.cast(x, dtype="int2"), after, ops.exp(x), ops.add(c, c)

    with pytest.raises(ModelError) as raised:
        export(program(build, x="float32[3]", c="complex64[2]"), 21)
    problems = {p.op: p for p in raised.value.problems}
    assert problems.keys() == {"bitcast", "cast", "add"}
    assert (problems["bitcast"].hint, problems["cast"].hint) == ("opset 26 has it", "opset 25 has it")
    assert all(p.opset == 21 and p.node == "here" for p in problems.values())
    assert problems["add"].hint == ""


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "bfloat16", "int8", "uint16", "int64", "bool", "int4", "uint4", "float8_e5m2"],
)
@pytest.mark.parametrize("external", [False, True])
def test_weights_of_every_type(dtype: str, external: bool, tmp_path: Path) -> None:
    array = (
        np.arange(1, 4 * 701 + 1)
        .reshape(4, 701)
        .astype(np.int8 if "4" in dtype else np.float64)
        .astype(numpy_dtype(dtype))
    )
    made = Program.create([("x", spec("float32[]"))])
    with made.building("here"):
        key = made.weights.add(array_weight(array), "w")
        value = ops.weight(key=key, shape=array.shape, dtype=dtype)
        result = ops.cast(value, dtype="float32")
    made.finish([("y", result), ("z", ops_identity(made))])
    write(made, tmp_path / "m.onnx", external_data=external)
    model = onnx.load(tmp_path / "m.onnx")
    (tensor,) = [t for t in model.graph.initializer if t.name == "w"]
    assert (onnx.numpy_helper.to_array(tensor).astype(np.float64) == array.astype(np.float64)).all()
    assert (tmp_path / "m.onnx.data").exists() == external


def ops_identity(made: Program) -> Any:
    return made.inputs[0]


def test_inputs_and_constants_as_outputs(tmp_path: Path) -> None:
    """Outputs that are no node's results, or one value twice, have the names of the outputs."""
    made = Program.create([("x", spec("float32[3]"))])
    with made.building("here"):
        one, y = number(1.0, "float32"), ops.exp(made.inputs[0])
    made.finish([("a", made.inputs[0]), ("b", one), ("c", y), ("d", y)])
    model = exported(made)
    x = np.array([0.0, 1.0, 2.0], np.float32)
    close(ort(model, [x]), [x, np.array(1.0, np.float32), np.exp(x), np.exp(x)])


def test_names_that_clash() -> None:
    """A weight, an input and an output may be called alike; ONNX has one space of names."""
    made = weighted(np.ones((40,), np.float32), key="x")
    model = exported(made)
    assert [i.name for i in model.graph.input] == ["x"]
    close(ort(model, [np.zeros(40, np.float32)]), [np.ones(40, np.float32)])


def test_outputs_need_names_of_their_own() -> None:
    made = program(lambda x, y: (ops.exp(x), ops.exp(y), x), x="float32[3]", y="float32[3]")
    made.output_names = ["y", "z", "z"]
    with pytest.raises(ModelError) as raised:
        export(made)
    messages = [p.message for p in raised.value.problems]
    assert messages == ["an input and an output are called 'y'", "two outputs are called 'z'"]


def test_external_data_is_read_back(tmp_path: Path) -> None:
    array = np.random.default_rng(1).standard_normal((300, 7)).astype(np.float32)
    made = weighted(array)
    path = tmp_path / "model.onnx"
    write(made, path, external_data=True)
    (entry,) = [t for t in onnx.load(path, load_external_data=False).graph.initializer if t.external_data]
    fields = {e.key: e.value for e in entry.external_data}
    assert fields["location"] == "model.onnx.data" and int(fields["offset"]) % 4096 == 0
    again = read_program(path)
    assert (again.weights.get("layer.weight") == array).all()
    assert sorted(f.name for f in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]


def test_nothing_is_left_of_what_is_not_accepted(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"before")

    def refuse(file: Path) -> None:
        assert file.exists()
        raise BurnError("no")

    with pytest.raises(BurnError, match="no"):
        write(weighted(np.ones(3, np.float32)), path, accept=refuse)
    with pytest.raises(ModelError):
        write(program(lambda c: ops.add(c, c), c="complex64[2]"), path)
    assert path.read_bytes() == b"before"
    assert [f.name for f in tmp_path.iterdir()] == ["model.onnx"]


def test_paths_that_cannot_be_written_to(tmp_path: Path) -> None:
    made = weighted(np.ones(3, np.float32))
    with pytest.raises(BurnError, match="is a folder"):
        write(made, tmp_path)
    with pytest.raises(BurnError, match="no such folder"):
        write(made, tmp_path / "absent" / "m.onnx")


def test_many_ops() -> None:
    """Ten thousand ops in a chain."""

    def build(x: Any) -> Any:
        for _ in range(10_000):
            x = ops.neg(x)
        return x

    assert len(export(program(build, x="float32[3]")).graph.node) == 10_000
