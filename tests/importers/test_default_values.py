"""Initializers that a graph also lists as inputs: default values, which callers may replace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import burn
from burn.adapters.onnx import BurnBackend
from burn.cli.main import main
from burn.errors import InputError, ModelError, TypeMismatch
from burn.runtime.artefact import Artefact
from tests.importers.models import model, node, tensor, value

DEFAULT = np.arange(6, dtype=np.float32).reshape(3, 2)
OTHER = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
X = np.array([[1, -2, 3], [0.5, 4, -1]], np.float32)


def offering(shape: Any = (3, 2)) -> onnx.ModelProto:
    inputs = [value("x", ["n", 3]), value("W", shape)]
    return model([node("MatMul", "x W", "y")], inputs, [value("y", ["n", 2])], [tensor("W", DEFAULT)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(offering(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_a_default_value_is_compiled_in(path: Path) -> None:
    np.testing.assert_allclose(burn.load(path)(X), X @ DEFAULT, rtol=1e-6)


def test_another_value_is_refused_with_advice_also_from_the_cache(path: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match=r"'W' has a default value in the model.*inputs=\['W'\]"):
            burn.load(path).run({"x": X, "W": OTHER})
    artefact = burn.load(path).artefact
    artefact.save(tmp_path / "m.burn")
    assert Artefact.load(tmp_path / "m.burn").signature.defaults == ("W",)


@pytest.mark.parametrize("shape", [(3, 2), (3, "m"), None], ids=str)
@pytest.mark.parametrize("form", ["path", "bytes", "proto"])
def test_a_named_default_value_is_an_input(shape: Any, form: str, tmp_path: Path) -> None:
    proto = offering(shape)
    onnx.save(proto, tmp_path / "m.onnx")
    source = {"path": tmp_path / "m.onnx", "bytes": proto.SerializeToString(), "proto": proto}[form]
    for _ in range(2):  # compiled, and from the cache
        program = burn.load(source, inputs=["W"])
        assert [spec.name for spec in program.inputs] == ["x", "W"]
        np.testing.assert_allclose(program(X, OTHER), X @ OTHER, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(burn.load(source)(X), X @ DEFAULT, rtol=1e-6)


def test_names_that_are_no_default_values_are_refused(path: Path) -> None:
    with pytest.raises(ModelError, match=r"'V' is no default value \(the default values are W\)"):
        burn.load(path, inputs=["V"])
    with pytest.raises(ModelError, match="'x' is an input already"):
        burn.load(path, inputs=["x"])
    with pytest.raises(TypeMismatch, match="not 'W'"):
        burn.load(path, inputs="W")
    with pytest.raises(TypeMismatch, match="inputs= is for inference"):
        burn.load(path, inputs=["W"], train=True)  # type: ignore[call-overload]


@pytest.mark.parametrize("peer", ["onnxruntime", "reference"])
def test_run_takes_another_value(peer: str, path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", OTHER)
    np.save(tmp_path / "x.npy", X)
    given = ["--input", f"W={tmp_path / 'w.npy'}", "--input", f"x={tmp_path / 'x.npy'}"]
    saved = ["--save", str(tmp_path / "out.npz"), "--verify", peer, "--per-node"]
    done = CliRunner().invoke(main, ["run", str(path), *given, *saved])
    assert done.exit_code == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], X @ OTHER, rtol=1e-6, atol=1e-6)


def test_the_backend_interface_takes_another_value() -> None:
    backend = BurnBackend.prepare(offering())
    for given, want in [([X], DEFAULT), ([X, OTHER], OTHER), ({"x": X, "W": OTHER}, OTHER), ([X], DEFAULT)]:
        np.testing.assert_allclose(backend.run(given)[0], X @ want, rtol=1e-6, atol=1e-6)
