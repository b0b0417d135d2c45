"""Constants of a file in aligned memory: equal bytes, and no pages of the file besides the copy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from burn.dialect import weights
from burn.dialect.weights import ALIGNMENT, WeightStore

SIZE = 48 << 20

MEASURED = """
import re, sys
from burn.dialect.weights import WeightStore
def resident():
    return int(re.search(r"RssFile:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
store = WeightStore()
key = store.add_file(sys.argv[1], 4, int(sys.argv[2]), "uint8", (int(sys.argv[2]),))
before = resident()
array = store.get_aligned(key)
print(resident() - before, array.nbytes)
"""


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bfloat16"])
@pytest.mark.parametrize("offset", [0, 4, 64, 100])
@pytest.mark.parametrize("shape", [(0,), (), (3, 5), (1009,)])
def test_copies_have_the_bytes_of_the_file(
    dtype: str, offset: int, shape: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "COPIED", 512)  # no multiple of a page
    content = np.random.default_rng(0).integers(0, 100, 8192).astype(np.uint8)
    (tmp_path / "file").write_bytes(content.tobytes())
    store = WeightStore()
    length = int(np.prod(shape)) * {"float32": 4, "uint8": 1, "bfloat16": 2}[dtype]
    key = store.add_file(tmp_path / "file", offset, length, dtype, shape)
    got, expected = store.get_aligned(key), store.get(key)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes() == content[offset : offset + length].tobytes()
    assert not length or got.ctypes.data % ALIGNMENT == 0


def test_what_is_aligned_or_in_memory_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(4096))
    store = WeightStore()
    mapped = store.add_file(tmp_path / "file", 128, 256, "uint8", (256,))
    array = store.add_array(np.arange(5, dtype=np.uint8)[1:])
    assert store.get_aligned(mapped).ctypes.data == store.get(mapped).ctypes.data
    assert store.get_aligned(array) is store.get(array)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc has the resident memory")
def test_pages_of_the_file_are_released(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(SIZE + 4))
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "file"), str(SIZE)]
    more, copied = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert copied == SIZE and more < SIZE // 4
