"""Weights that torch holds in memory, 8-bit floats, filters that choose nothing, and files with several models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import ModelError, TypeMismatch
from burn.importers.weights import read, safetensors
from burn.importers.weights.checkpoint import Checkpoint

WEIGHT = np.array([[0.5, -1.25, 3.0], [448.0, 0.0, -0.015625]], np.float32)


def elements(layer: nn.Module) -> np.ndarray:
    return layer.state_dict()["weight"]


@pytest.mark.parametrize("kind", ["parameter", "bfloat16", "transposed", "negated"])
def test_tensors_of_torch_in_memory(kind: str) -> None:
    torch = pytest.importorskip("torch")
    tensor: Any = torch.from_numpy(WEIGHT.copy())
    given = {
        "parameter": lambda: torch.nn.Parameter(tensor),
        "bfloat16": lambda: tensor.bfloat16(),
        "transposed": lambda: tensor.t().contiguous().t(),
        "negated": lambda: torch._neg_view(-tensor),
    }[kind]()
    layer = nn.Linear(3, 2, bias=False)
    layer.load({"weight": given}, dtype="cast")
    assert np.array_equal(elements(layer), WEIGHT)
    with torch.no_grad():
        given.zero_()  # the module has a copy
    assert np.array_equal(elements(layer), WEIGHT)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float8_e4m3fn", "int16", "complex64", "bool"])
def test_constants_of_torch_tensors_keep_their_type(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    values = torch.tensor([1.0, 0.0, 2.0]).to(getattr(torch, dtype))
    made = burn.constant(values)
    assert made.dtype == dtype
    values.zero_()
    wide = "complex64" if dtype == "complex64" else "float32"
    assert made.astype(wide).numpy().tolist() == ([1, 0, 1] if dtype == "bool" else [1, 0, 2])


def test_constants_of_unusual_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    assert burn.constant(torch.ones(2).requires_grad_()).numpy().tolist() == [1, 1]
    assert burn.constant(torch.tensor([1 + 2j]).conj()).numpy().tolist() == [1 - 2j]
    added = burn.jit(lambda x: x + burn.constant(torch.ones(2, dtype=torch.float64)))(burn.ones(2))
    assert added.dtype == "float64"
    for odd in (torch.eye(2).to_sparse(), torch.ones(2, device="meta")):
        with pytest.raises(burn.errors.TypeMismatch, match="cannot be read through DLPack"):
            burn.constant(odd)


def test_constants_of_tensors_that_have_no_elements_to_read() -> None:
    torch = pytest.importorskip("torch")
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    for tensor in (nested, torch.eye(2).to_sparse(), torch.zeros(2, device="meta")):
        with pytest.raises(TypeMismatch, match="this tensor cannot be taken over"):
            burn.constant(tensor)
    with pytest.raises(TypeMismatch, match="do not make a tensor"):
        burn.constant([torch.nn.Parameter(torch.ones(()))])


def test_constants_of_jax_arrays_outside_of_dlpack() -> None:
    jnp = pytest.importorskip("jax").numpy
    assert np.array_equal(burn.constant(jnp.array([1, -2], "int4")).astype("int64").numpy(), [1, -2])


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_floats_are_cast(kind: str, tmp_path: Path) -> None:
    stored = WEIGHT.astype(getattr(ml_dtypes, kind))
    safetensors.write(tmp_path / "w.safetensors", Checkpoint.of({"weight": stored}))
    assert read(tmp_path / "w.safetensors")["weight"].dtype == kind
    layer = nn.Linear(3, 2, bias=False)
    with pytest.raises(ModelError, match=r"dtype='cast' converts the elements\)"):
        layer.load(str(tmp_path / "w.safetensors"))
    layer.load(str(tmp_path / "w.safetensors"), dtype="cast")
    assert np.array_equal(elements(layer), stored.astype(np.float32))


def test_filters_that_leave_nothing_are_refused() -> None:
    layer = nn.Linear(3, 2, bias=False)
    filters: list[dict[str, Any]] = [
        {"include": "wieght"},
        {"include": ["bias"]},
        {"include": "weight", "exclude": "w"},
    ]
    for options in filters:
        with pytest.raises(ModelError, match="leave no parameter to load\n  - of weight"):
            layer.load({"weight": WEIGHT}, **options)
    layer.load({"weight": WEIGHT}, include="eight")


def test_several_models_in_a_file() -> None:
    layer = nn.Linear(3, 2, bias=False)
    both = {"gen.weight": WEIGHT, "disc.weight": 2 * WEIGHT}
    with pytest.raises(ModelError, match=re.escape("these names under 'gen.' and 'disc.'")) as error:
        layer.load(both)
    assert "partial=True loads the first" in str(error.value)
    layer.load(both, remap=[("^gen\\.", "")], partial=True)
    assert np.array_equal(elements(layer), WEIGHT)


def test_errors_of_files_speak_of_tensors(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"weight_map": {"zz": "a.safetensors"}}')
    safetensors.write(tmp_path / "a.safetensors", Checkpoint.of({"w": WEIGHT}))
    (tmp_path / "index.json").rename(tmp_path / "model.safetensors.index.json")
    with pytest.raises(ModelError, match="tensor 'zz': the index says"):
        read(tmp_path / "model.safetensors.index.json")
