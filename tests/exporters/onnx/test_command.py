"""`burn export` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from burn.cli.main import main

SOURCE = """
from burn import nn, ops

class Net(nn.Module):
    inputs = {"x": "float32[batch, 12]"}
    outputs = ("scores",)

    def __init__(self):
        self.layer = nn.Linear(12, 5)

    def forward(self, x):
        return ops.softmax(self.layer(x), axis=-1)

class Plain(nn.Module):
    inputs = {"x": "float32[batch, 4]"}

    def forward(self, x):
        return {"y": x * 2.0}

class Sized(Net):
    def __init__(self, width):
        self.layer = nn.Linear(12, width)

def sized():
    return Sized(3)

def product(x, y):
    return ops.dot_general(x, y, lhs_contract=(1,), rhs_contract=(0,))

number = 3
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "exported_models.py"
    path.write_text(SOURCE)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_a_module_is_written_and_compared(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    done = run(f"{source}:Net", "-o", path, "--verify", "onnxruntime", "--dim", "batch=3", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["inputs"] == {"x": "float32[batch, 12]"} and report["opset"] == 21
    assert report["nodes"] == {"Gemm": 1, "Softmax": 1} and report["verify"]["outputs"][0]["same"]
    onnx.checker.check_model(path, full_check=True)


def test_weights_of_a_file(source: Path, tmp_path: Path) -> None:
    import numpy as np

    from burn.cli.export import named_model

    module = named_model(f"{source}:Net")
    weights = tmp_path / "w.safetensors"
    module.save(weights)  # type: ignore[attr-defined]
    done = run(f"{source}:Net", "-o", tmp_path / "net.onnx", "--weights", weights)
    assert done.exit_code == 0, done.output
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "net.onnx").graph.initializer}
    assert (stored["layer.weight"] == np.asarray(module.state_dict()["layer.weight"])).all()  # type: ignore[attr-defined]


def test_a_function_and_a_factory(source: Path, tmp_path: Path) -> None:
    types = ("--input", "x=float32[n,4]", "--input", "y=float32[4,m]")
    done = run(f"{source}:product", "-o", tmp_path / "f.onnx", *types, "--opset", 18)
    assert done.exit_code == 0, done.output
    assert [o.op_type for o in onnx.load(tmp_path / "f.onnx").graph.node] == ["MatMul"]
    assert run(f"{source}:sized", "-o", tmp_path / "s.onnx").exit_code == 0


def test_a_file_at_another_opset(source: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.onnx", tmp_path / "b.onnx"
    assert run(f"{source}:Net", "-o", first, "--opset", 18).exit_code == 0
    done = run(first, "-o", second, "--opset", 25, "--verify", "onnxruntime", "--dim", "batch=2")
    assert done.exit_code == 0, done.output
    assert onnx.load(second).opset_import[0].version == 25


def test_a_pytorch_module_class(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "exported_torch_models.py"
    path.write_text(
        "import torch\n\nclass Net(torch.nn.Sequential):\n    def __init__(self):\n"
        "        super().__init__(torch.nn.Linear(4, 3), torch.nn.ReLU())\n"
    )
    verify = ("--verify", "onnxruntime", "--dim", "n=7")
    done = run(f"{path}:Net", "-o", tmp_path / "net.onnx", "--input", "input=float32[n,4]", *verify)
    assert done.exit_code == 0, done.output
    assert [o.op_type for o in onnx.load(tmp_path / "net.onnx").graph.node] == ["Gemm", "Relu"]


@pytest.mark.parametrize(
    "name, message",
    [
        (":Absent", "has no 'Absent'"),
        ("", "say which"),
        (":Sized", "takes width"),
        (":number", "is no model"),
        (":product", "what inputs product takes is not known"),
    ],
)
def test_what_is_wrong_is_said(source: Path, tmp_path: Path, name: str, message: str) -> None:
    done = run(f"{source}{name}", "-o", tmp_path / "m.onnx")
    assert done.exit_code == 1 and message in done.output and "Traceback" not in done.output
    assert not (tmp_path / "m.onnx").exists()


def test_a_missing_size_is_asked_for(source: Path, tmp_path: Path) -> None:
    done = run(f"{source}:Net", "-o", tmp_path / "m.onnx", "--verify", "onnxruntime")
    assert done.exit_code == 1 and "--dim batch=NUMBER" in done.output
    assert not (tmp_path / "m.onnx").exists()


def test_a_class_without_a_constructor_of_its_own(source: Path, tmp_path: Path) -> None:
    done = run(f"{source}:Plain", "-o", tmp_path / "plain.onnx")
    assert done.exit_code == 0, done.output
    assert [node.op_type for node in onnx.load(tmp_path / "plain.onnx").graph.node] == ["Mul"]
