"""The safetensors format: every element type both ways, and malformed files."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burn.dialect.weights import Weight, array_weight
from burn.errors import ModelError
from burn.importers.weights import safetensors


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int8", "uint16", "bool", "complex64", "complex128"]
)
def test_every_numpy_type_makes_the_round_trip(dtype: str, tmp_path: Path) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    safetensors.write(tmp_path / "f", {"a": array_weight(array), "empty": array_weight(np.zeros((0, 2), dtype))})
    read = safetensors.read(tmp_path / "f")
    np.testing.assert_array_equal(read["a"].array(), array)
    assert read["a"].dtype == dtype and read["empty"].shape == (0, 2)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float4_e2m1fn", "int4", "uint4", "int2"]
)
def test_small_types_make_the_round_trip(dtype: str, tmp_path: Path) -> None:
    array = np.array([[0, 1], [1, 0]]).astype(getattr(ml_dtypes, dtype))
    safetensors.write(tmp_path / "f", {"a": array_weight(array)})
    read = safetensors.read(tmp_path / "f")["a"]
    assert (read.dtype, read.shape) == (dtype, (2, 2))
    np.testing.assert_array_equal(read.array().astype(np.float32), array.astype(np.float32))


def test_strings_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    weight = Weight("string", (1,), np.array(["a"], object))
    with pytest.raises(ModelError, match="strings"):
        safetensors.write(tmp_path / "f", {"good": array_weight(np.zeros(3)), "words": weight})
    assert not list(tmp_path.iterdir())


def _file(tmp_path: Path, header: object, data: bytes = b"\0" * 16) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "f.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


BAD = {
    "not JSON": (b"{", "not JSON"),
    "not a table": ([1], "not a table"),
    "entry": ({"a": 1}, "not a table"),
    "no shape": ({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, "lacks"),
    "negative": ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, "lacks"),
    "outside": ({"a": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}, "of f.safetensors, which has"),
    "wrong size": ({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 16]}}, "12 bytes, not 16"),
    "backwards": ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}}, "make no sense"),
    "unknown type": ({"a": {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}}, "X9"),
    "overlap": (
        {n: {"dtype": "F32", "shape": [2], "data_offsets": [o, o + 8]} for n, o in (("a", 0), ("b", 4))}, "overlap",
    ),
    "huge": ({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}, "too large|takes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_malformed_files_are_refused(name: str, tmp_path: Path) -> None:
    header, message = BAD[name]
    with pytest.raises(ModelError, match=message):
        safetensors.read(_file(tmp_path, header))


def test_a_header_longer_than_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for content in (b"", b"\1\2", (2**60).to_bytes(8, "little") + b"{}"):
        path.write_bytes(content)
        with pytest.raises(ModelError, match="not a safetensors file"):
            safetensors.read(path)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_raise_errors_only(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "f"
    safetensors.write(path, {"a": array_weight(np.arange(5.0)), "b": array_weight(np.ones((2, 2), np.int8))})
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        for weight in safetensors.read(path).values():
            weight.array()
    except ModelError:
        pass
