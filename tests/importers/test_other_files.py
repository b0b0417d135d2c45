"""Files and functions that are something else than a model: one sentence says what they are, and what to do."""

from __future__ import annotations

import gzip
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest

import burn
from burn.errors import ModelError, TypeMismatch
from burn.importers import weights
from burn.importers.onnx import import_onnx

FILES = {
    "m.gguf": (b"GGUF\x03\0\0\0" + bytes(64), "a GGUF file", "safetensors"),
    "m.tflite": (b"\x1c\0\0\0TFL3" + bytes(64), "a TensorFlow Lite model", "tf2onnx"),
    "m.ort": (b"\x1c\0\0\0ORTM" + bytes(64), "ONNX Runtime's own format", ".onnx"),
    "m.h5": (b"\x89HDF\r\n\x1a\n" + bytes(64), "an HDF5 file", "model.export"),
    "lfs.onnx": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n",
        "git-lfs pointer",
        "git lfs pull",
    ),
    "page.onnx": (b"\n <!DOCTYPE html><html>", "an HTML page", "download"),
    "config.json": (b'{\n "a": 1}', "JSON text", ".onnx"),
    "model.xml": (b'<?xml version="1.0"?><net name="a">', "XML text", "OpenVINO"),
    "small.onnx.gz": (gzip.compress(b"abc"), "compressed by gzip", "unpack"),
    "empty.onnx": (b"", "is empty", "download it again"),
    "empty.mlir": (b"", "is empty", "download it again"),
    "empty.pt2": (b"", "is empty", "download it again"),
    "note.onnx": (b"not a model but a note", "a text file", ".onnx"),
    "program.txt": (b"func.func @main() { }", "MLIR's text", ".mlir"),
    "model.py": (b"import burn\n", "Python source", "burn.compile"),
    "m.mlmodel": (b"\x08\x01\x12\x04abcd", "a Core ML model", "made from"),
    "saved_model.pb": (b"\x08\x01\x12\x04abcd", "a TensorFlow graph", "tf2onnx"),
    "model.pkl": (b"\x80\x04\x95\x10\0\0\0\0\0\0\0", "a pickle", "without running it"),
    "old.pt": (
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.",
        "weights alone (torch.save)",
        "module.load",
    ),
    "old.onnx": (
        b"\x80\x04\x95\r\0\0\0\0\0\0\0\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
        "weights alone",
        "module.load",
    ),
    "w.onnx": (b"\x93NUMPY\x01\0", "weights alone", "module.load"),
    "s.onnx": (b"\x08\0\0\0\0\0\0\0{}      ", "weights alone", "module.load"),
}

ARCHIVES = {
    "m.keras": (["metadata.json", "config.json", "model.weights.h5"], "a Keras model", "model.export"),
    "ts.pt": (["ts/constants.pkl", "ts/code/__torch__.py", "ts/data.pkl"], "TorchScript", "torch.onnx.export"),
    "ts.pt2": (["ts/constants.pkl", "ts/code/__torch__.py", "ts/data.pkl"], "TorchScript", "torch.onnx.export"),
    "w.pt": (["w/data.pkl"], "weights alone", "module.load"),
    "w.npz": (["a.npy"], "weights alone", "module.load"),
    "p.zip": (["p/models/model.json"], "a program of torch.export", ".pt2"),
    "any.zip": (["a.txt"], "a zip archive", "unpack"),
}


def refused(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        burn.load(path, cache=False)
    assert len(caught.value.problems) == 1
    return str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    content, what, hint = FILES[name]
    (tmp_path / name).write_bytes(content)
    said = refused(tmp_path / name)
    assert what in said and hint in said and name in said and "protobuf" not in said
    if name.endswith(".onnx") and "it is" in said:
        with pytest.raises(ModelError, match=what):
            import_onnx(content)


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(name: str, tmp_path: Path) -> None:
    members, what, hint = ARCHIVES[name]
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        for member in members:
            archive.writestr(member, b"x")
    said = refused(tmp_path / name)
    assert what in said and hint in said


def test_torchs_own_archive(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    module = torch.jit.trace(torch.nn.Linear(3, 2), torch.ones(1, 3))
    module.save(tmp_path / "m.pt")
    assert "TorchScript" in refused(tmp_path / "m.pt")
    assert set(weights.read(tmp_path / "m.pt")) == {"weight", "bias"}
    with pytest.raises(ModelError, match=r"TorchScript.*\n.*torch\.nn\.Module"):
        burn.compile(module, (torch.ones(1, 3),))


@pytest.mark.parametrize("ending", ["safetensors", "bin", "pt"])
def test_weights_that_are_something_else(ending: str, tmp_path: Path) -> None:
    for name in ("lfs.onnx", "page.onnx", "m.h5", "m.gguf"):
        content, what, _ = FILES[name]
        (tmp_path / f"w.{ending}").write_bytes(content)
        with pytest.raises(ModelError, match=what):
            weights.read(tmp_path / f"w.{ending}")


def test_an_unknown_operator_does_not_make_a_model_invalid() -> None:
    of = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Nothing", ["x"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", [of("x", 1, [2])], [of("y", 1, [2])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    with pytest.raises(ModelError, match=r"cannot be imported\n  - Nothing .opset 18.*: unknown operator"):
        import_onnx(model)
    model.graph.node.add(op_type="Relu", input=["nowhere"], output=["z"])
    with pytest.raises(ModelError, match="is not a valid ONNX model"):
        import_onnx(model)


def test_functions_of_other_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that fails as JAX does on arrays that are not its own."""
    jax: Any = ModuleType("jax")
    exec(
        "def relu(x): raise TypeError(f'Cannot interpret value of type {type(x)} as an abstract array')",
        vars(jax),
    )
    monkeypatch.setitem(sys.modules, "jax", jax)

    def activate(x: burn.Tensor) -> burn.Tensor:
        return jax.relu(x)

    with pytest.raises(TypeMismatch, match=r"'activate' is a function of JAX's arrays(.|\n)*burn\.from_jax"):
        burn.compile(activate, ("float32[n]",))
    with pytest.raises(AttributeError, match="nope"):
        burn.compile(lambda x: x.nope(), ("float32[n]",))
    with pytest.raises(TypeMismatch, match=r"burn\.compile takes functions"):
        burn.load(activate)  # type: ignore[call-overload]
