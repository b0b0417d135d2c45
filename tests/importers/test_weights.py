"""The weight store: bytes as ONNX packs them come back as onnx itself reads them, and nothing malformed gets in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from burn.dialect.types import DTYPES, numpy_dtype
from burn.dialect.weights import WeightStore
from burn.errors import ModelError


def sample(dtype: str, count: int) -> np.ndarray:
    """Arbitrary bit patterns of a type."""
    rng = np.random.default_rng(count)
    kind = DTYPES[dtype]
    high = 2 ** min(kind.bits, 7)
    return rng.integers(0, high, count * kind.size).astype(np.uint8).view(numpy_dtype(dtype))


@pytest.mark.parametrize("count", [0, 1, 5, 8])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("string", "list")])
def test_mapped_bytes_read_as_onnx_reads_them(dtype: str, count: int, tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(sample(dtype, count))
    path = tmp_path / "weights"
    path.write_bytes(b"abc" + tensor.raw_data)  # an odd offset, as a protobuf field has
    store = WeightStore()
    key = store.add_file(path, 3, len(tensor.raw_data), dtype, (count,))
    expected = numpy_helper.to_array(tensor)
    for _ in range(2):  # before and after the pages were given back
        got = store.get(key)
        assert got.dtype == expected.dtype
        assert got.tobytes() == expected.tobytes()
        store.release(key)


def test_equal_constants_share_a_key() -> None:
    store = WeightStore()
    assert store.add_array(np.arange(3), "a") == store.add_array(np.arange(3), "b") == "a"
    assert store.add_array(np.arange(3, dtype=np.int32), "a") == "a_1"  # same bytes are not enough
    large = np.zeros(10_000)
    assert store.add_array(large, "c") == store.add_array(large, "d")
    assert store.add_array(np.zeros(10_000), "c") == "c_1"
    assert len(store) == 4
    store.remove("a")
    assert store.add_array(np.arange(3), "e") == "e"


def test_strings_and_scalars() -> None:
    store = WeightStore()
    words = store.get(store.add_array(np.array([["a", "bc"]])))
    assert words.dtype == object and words.tolist() == [["a", "bc"]]
    assert store.get(store.add_array(np.array(3.0))).shape == ()


def test_a_boolean_is_zero_or_one(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(bytes([0, 1, 2, 255]))
    store = WeightStore()
    got = store.get(store.add_file(tmp_path / "w", 0, 4, "bool", (4,)))
    assert got.view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("offset", "length", "dtype", "shape", "message"),
    [
        (0, 12, "float32", (4,), "takes 16 bytes, not 12"),
        (8, 16, "float32", (4,), "bytes 8 to 24 of w, which has 16"),
        (-1, 16, "float32", (4,), "bytes -1 to 15"),
        (0, 16, "float32", (-4,), "negative dimension"),
        (0, 16, "float32", (2**40, 2**40), "takes 4835703278458516698824704 bytes"),
        (0, 16, "float7", (4,), "float7"),
        (0, 16, "string", (2,), "strings"),
    ],
)
def test_malformed(offset: int, length: int, dtype: str, shape: tuple[int, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(bytes(16))
    with pytest.raises(ModelError, match=message):
        WeightStore().add_file(tmp_path / "w", offset, length, dtype, shape)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read"):
        WeightStore().add_file(tmp_path / "none", 0, 4, "float32", (1,))
