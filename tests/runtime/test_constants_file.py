"""Constants that a compilation writes to the file of its cache entry."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from burn.dialect.weights import FILED, WeightStore
from burn.errors import ModelError
from burn.runtime.artefact import Artefact, Constant, Signature, Target
from burn.runtime.cache import Cache
from burn.runtime.constants_file import ALIGNMENT, ConstantsFile

pytestmark = pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are Linux's")
CODE = b"\x7fcode"


def drawn(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


def artefact(*constants: Constant) -> Artefact:
    return Artefact(Signature((), ()), Target("x86_64-unknown-linux-gnu"), CODE, constants)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", 1 << 30)


def filed(cache: Cache, arrays: list[np.ndarray]) -> tuple[ConstantsFile, list[Constant]]:
    """A file for the key b"key", and the arrays as constants in it."""
    file = cache.constants_file(b"key")
    assert file is not None
    store = WeightStore(file=file)
    keys = [store.add_array(array) for array in arrays]
    return file, [Constant.of(store.get_aligned(key, to_file=True), store.weight(key).stored) for key in keys]


def test_constants_are_read_from_the_file(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that exceed the first map and the second one, and small ones, which stay in memory."""
    monkeypatch.setattr("burn.runtime.constants_file._FIRST", 1 << 16)
    sizes = [FILED - 1, FILED, FILED + 1, 20_000, 50_000, 300_000, 100_003]
    arrays = [drawn(size, seed) for seed, size in enumerate(sizes)]
    file, constants = filed(cache, arrays)
    for array, constant in zip(arrays, constants, strict=True):
        np.testing.assert_array_equal(constant.array(), array)
        assert (constant.stored is None) == (array.size < FILED)
        if constant.stored is not None:
            assert constant.stored.offset % ALIGNMENT == 0
            assert np.frombuffer(constant.data, np.uint8).ctypes.data % ALIGNMENT == 0
            constant.stored.release()
            np.testing.assert_array_equal(constant.array(), array)
    with pytest.raises(ValueError, match="no constant"):
        file.view(1 << 40, 1)


def test_the_file_becomes_the_entry(cache: Cache) -> None:
    arrays = [drawn(40_000), np.arange(7, dtype=np.float32), np.ones((3, 0), np.int64), drawn(20_001, 1)]
    file, constants = filed(cache, arrays)
    assert not list(cache.directory.rglob("*.burn"))
    cache.put_later(b"key", artefact(*constants), lambda: True, file)
    path = cache.path(b"key")
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o600
    found = cache.get(b"key")
    assert found is not None and bytes(found.code) == CODE
    for array, constant in zip(arrays, found.constants, strict=True):
        np.testing.assert_array_equal(constant.array(), array)
        assert constant.array().dtype == array.dtype
    again = np.array(constants[0].array())
    path.unlink()
    np.testing.assert_array_equal(constants[0].array(), again)  # the map stays


def test_the_same_constants_give_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        cache = Cache(tmp_path / name, 1 << 30)
        file, constants = filed(cache, [drawn(50_000), drawn(30_001, 1)])
        cache.put_later(b"key", artefact(*constants), lambda: True, file)
        written.append(cache.path(b"key").read_bytes())
    assert written[0] == written[1]


def test_an_entry_has_no_constants_of_others(cache: Cache) -> None:
    """A file with many constants that the program does not use is not the entry."""
    file, constants = filed(cache, [drawn(40_000), drawn(1 << 20, 1)])
    cache.put_later(b"key", artefact(constants[0]), lambda: True, file)
    assert cache.path(b"key").stat().st_size < 60_000
    found = cache.get(b"key")
    assert found is not None
    np.testing.assert_array_equal(found.constants[0].array(), drawn(40_000))


def test_an_entry_is_not_written_for_another_program(cache: Cache) -> None:
    file, constants = filed(cache, [drawn(40_000)])
    cache.put_later(b"key", artefact(*constants), lambda: False, file)
    assert not cache.entries()


def test_damage_is_refused(cache: Cache) -> None:
    file, constants = filed(cache, [drawn(40_000)])
    cache.put_later(b"key", artefact(*constants), lambda: True, file)
    path = cache.path(b"key")
    whole = path.read_bytes()
    for position in (9, 16, 24, 40, 57, 72, 5000, 44_000, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ModelError):
            Artefact.load(path)


def test_without_room_constants_stay_in_memory(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    _, constants = filed(cache, [drawn(40_000)])
    assert constants[0].stored is None
    np.testing.assert_array_equal(constants[0].array(), drawn(40_000))


def test_a_file_system_without_such_files(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    assert cache.constants_file(b"key") is None


def test_weights_of_a_model_are_copied_there(cache: Cache, tmp_path: Path) -> None:
    """At an offset of no alignment, in a model's file."""
    data = drawn(100_003)
    (tmp_path / "model").write_bytes(data.tobytes())
    file = cache.constants_file(b"key")
    assert file is not None
    store = WeightStore(file=file)
    key = store.add_file(tmp_path / "model", 3, 80_000, "uint8", (80_000,))
    for array in (store.get_aligned(key), store.get_once(key)):  # an evaluator reads them
        np.testing.assert_array_equal(array, data[3:80_003])
    assert file.size == 0 and store.weight(key).stored is None
    array = store.get_aligned(key, to_file=True)
    np.testing.assert_array_equal(array, data[3:80_003])
    assert store.weight(key).stored is not None and array.ctypes.data % ALIGNMENT == 0
    assert replace(store.weight(key), shape=(2, 40_000)).array().shape == (2, 40_000)


_COMPILE = """
import json, sys
import numpy as np
import burn.compiler
from burn.caching import executable_of
from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options

def anonymous():
    return int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0]) * 1024

def program(rows):
    made = Program.create([("x", TensorType("float32", (16, rows)))])
    with made.building("matmuls"):
        y = made.inputs[0]
        for i in range(4):
            key = made.weights.add_array(np.random.default_rng(i).standard_normal((rows, rows), np.float32))
            weight = ops.weight(key=key, shape=(rows, rows), dtype="float32")
            y = ops.dot_general(y, weight, lhs_contract=(1,), rhs_contract=(0,))
    return made.finish([("y", y)])

executable_of(["first"], lambda: program(8), Options())
given = [program(2048)]
before = anonymous()
run = executable_of(["second"], given.pop, Options())
between = anonymous()
y = run(np.ones((16, 2048), np.float32))
print(json.dumps([before, between, float(np.abs(y).max())]))
"""


def test_packed_weights_take_no_memory_of_their_own(tmp_path: Path) -> None:
    """Four weights of 16 MiB are packed. The given arrays are freed, and the packed ones are pages of the file."""
    environment = {**os.environ, "BURN_CACHE_DIR": str(tmp_path), "BURN_CACHE_SIZE": "1GB"}
    done = subprocess.run([sys.executable, "-c", _COMPILE], capture_output=True, text=True, env=environment, check=True)
    before, after, largest = json.loads(done.stdout)
    assert after < before - (48 << 20), "the weights as given are gone, and their panels are in the file"
    assert np.isfinite(largest) and largest > 0
    assert max(path.stat().st_size for path in tmp_path.rglob("*.burn")) > 64 << 20


def test_a_file_that_gets_no_name(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """As without /proc. The entry is written as others are, without a warning."""

    def unnamed(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "link", unnamed)
    file, constants = filed(cache, [drawn(40_000), drawn(7)])
    with warnings.catch_warnings(action="error"):
        cache.put_later(b"key", artefact(*constants), lambda: True, file)
        found = cache.get(b"key")
    assert found is not None
    for given, constant in zip(constants, found.constants, strict=True):
        np.testing.assert_array_equal(constant.array(), given.array())


def test_a_file_is_no_larger_than_its_cache(tmp_path: Path) -> None:
    file, constants = filed(Cache(tmp_path, 100_000), [drawn(60_000), drawn(60_000, 1), drawn(20_000, 2)])
    assert [constant.stored is not None for constant in constants] == [True, False, True]
    np.testing.assert_array_equal(constants[1].array(), drawn(60_000, 1))
    assert file.end <= 100_000


def test_descriptors_are_closed(cache: Cache) -> None:
    """A program that is in use has the descriptor of its map, as one that was loaded."""
    gc.collect()  # files of earlier tests
    before = len(os.listdir("/proc/self/fd"))
    file, constants = filed(cache, [drawn(40_000)])
    cache.put_later(b"key", artefact(*constants), lambda: True, file)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    with pytest.raises(OSError, match="descriptor"):
        file.add(drawn(20_000))
    np.testing.assert_array_equal(constants[0].array(), drawn(40_000))
    del file, constants
    assert len(os.listdir("/proc/self/fd")) == before


def test_files_are_not_confused(cache: Cache) -> None:
    """A descriptor that was closed is another file's. Weights at the same offset are different ones."""
    first, second = cache.constants_file(b"key"), None
    assert first is not None
    store = WeightStore(file=first)
    one = store.add_array(drawn(40_000))
    first.close()
    store.file = second = cache.constants_file(b"key")
    assert second is not None
    two = store.add_array(drawn(40_000, 1))
    np.testing.assert_array_equal(store.get(one), drawn(40_000))
    np.testing.assert_array_equal(store.get(two), drawn(40_000, 1))
