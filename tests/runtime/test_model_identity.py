"""The identity of model files: large ones are read once, and again after every change."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from burn.runtime import model_identity
from burn.runtime.files import mapped
from tests.clocks import wait_for_tick

LARGE = model_identity.LARGE
NAMED = b"\n\x08location\x12\x07big.bin"


@pytest.fixture
def reads(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files whose bytes are read. Files count as settled at once."""
    found: list[Path] = []
    read = model_identity._read
    monkeypatch.setattr(model_identity, "SETTLED", -1.0)
    monkeypatch.setattr(model_identity, "_read", lambda path, *rest: (found.append(path), read(path, *rest))[1])
    return found


def whole(path: Path) -> model_identity.Identity | None:
    status = path.stat()
    return model_identity.identity(path, status, mapped(path))


def identity(path: Path) -> list[str] | None:
    found = whole(path)
    return None if found is None else list(found.digests)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_large_file_is_read_once(reads: list[Path], tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(NAMED + bytes(LARGE))
    first = identity(model)
    assert first is not None and first == [hashlib.sha256(model.read_bytes()).hexdigest(), "big.bin absent"]
    assert identity(model) == first and len(reads) == 1
    (tmp_path / "big.bin").write_bytes(b"1234")
    assert identity(model) == [digest(model.read_bytes()), f"big.bin {digest(b'1234')}"]
    assert reads == [model, tmp_path / "big.bin"]


@pytest.mark.parametrize("size", [8, LARGE])
def test_data_that_keeps_size_and_time_is_seen(reads: list[Path], tmp_path: Path, size: int) -> None:
    """A model's external data, written in place and replaced by another file. Large data is read once."""
    model, data, other = (tmp_path / name for name in ("model.onnx", "big.bin", "other"))
    model.write_bytes(NAMED)
    data.write_bytes(bytes(size))
    times = data.stat()
    assert identity(model) == [digest(NAMED), f"big.bin {digest(bytes(size))}"]
    first = whole(model)
    assert first == whole(model) and reads.count(data) == (1 if size == LARGE else 3)
    wait_for_tick(tmp_path)
    data.write_bytes(b"1" * size)
    os.utime(data, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert identity(model) == [digest(NAMED), f"big.bin {digest(b'1' * size)}"]
    other.write_bytes(bytes(size))
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(other, data)
    again = whole(model)
    assert again != first and again is not None and first is not None and again.digests == first.digests


def test_a_file_may_be_a_model_and_data(reads: list[Path], tmp_path: Path) -> None:
    """The note of one says nothing of the other."""
    model, data = tmp_path / "model.onnx", tmp_path / "big.bin"
    model.write_bytes(NAMED)
    data.write_bytes(NAMED + bytes(LARGE))
    for _ in range(2):
        assert identity(model) == [digest(NAMED), f"big.bin {digest(data.read_bytes())}"]
        assert identity(data) == [digest(data.read_bytes()), f"big.bin {digest(data.read_bytes())}"]


@pytest.mark.parametrize("name", [b"../big.bin", b"/big.bin", b"a/../../big.bin", b"", b"folder", b"pipe"])
def test_data_that_no_importer_reads(reads: list[Path], tmp_path: Path, name: bytes) -> None:
    (tmp_path / "in" / "folder").mkdir(parents=True)
    (tmp_path / "big.bin").write_bytes(b"1")
    os.mkfifo(tmp_path / "in" / "pipe")
    model = tmp_path / "in" / "model.onnx"
    model.write_bytes(b"\n\x08location\x12" + bytes([len(name)]) + name)
    assert identity(model) == [digest(model.read_bytes()), f"{name.decode()} absent"]


def test_a_change_that_keeps_size_and_time_is_seen(reads: list[Path], tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(bytes(LARGE))
    first, times = identity(model), model.stat()
    wait_for_tick(tmp_path)
    with model.open("r+b") as file:
        file.write(b"1")
    os.utime(model, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = identity(model)
    assert second != first and len(reads) == 2
    other = tmp_path / "other"
    other.write_bytes(bytes(LARGE))
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(other, model)
    assert identity(model) == first and len(reads) == 3


def test_a_file_that_changed_lately_is_read_again(
    reads: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(model_identity, "SETTLED", 60.0)
    model = tmp_path / "model.onnx"
    model.write_bytes(bytes(LARGE))
    os.utime(model, (0, 0))  # the time of the last change of status stays
    assert identity(model) == identity(model)
    assert len(reads) == 2


def test_a_file_that_changes_while_it_is_read_gets_no_note(reads: list[Path], tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(bytes(LARGE))
    status, content = model.stat(), mapped(model)
    wait_for_tick(tmp_path)
    model.write_bytes(b"1" * LARGE)
    model_identity.identity(model, status, content)
    assert identity(model) == [hashlib.sha256(b"1" * LARGE).hexdigest()]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"status": 1}', '{"status": null, "digest": "0", "companions": []}'])
def test_a_damaged_note_is_replaced(reads: list[Path], own_cache: Path, tmp_path: Path, text: str) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(bytes(LARGE))
    first = identity(model)
    (note,) = (own_cache / "digests").iterdir()
    note.write_text(text)
    assert identity(model) == first == identity(model)
    assert len(reads) == 2


def test_a_note_that_others_may_write_is_not_read(reads: list[Path], own_cache: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(bytes(LARGE))
    first = identity(model)
    (note,) = (own_cache / "digests").iterdir()
    note.write_text(json.dumps({**json.loads(note.read_text()), "digest": "0" * 64}))
    note.chmod(0o666)
    assert identity(model) == first


def test_small_files_and_no_cache(
    reads: list[Path], own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(bytes(LARGE - 1))
    assert identity(model) == identity(model)
    monkeypatch.setenv("BURN_CACHE_SIZE", "0")
    model.write_bytes(bytes(LARGE))
    assert identity(model) == identity(model)
    assert len(reads) == 4 and not (own_cache / "digests").exists()
