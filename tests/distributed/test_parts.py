"""Checkpoints of several processes: blocks by process, a manifest that completes them, and one tensor again from the blocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn.distributed.layout import Layout
from burn.distributed.processes import Processes
from burn.errors import DistributedError, ModelError
from burn.train import checkpoints, parts
from burn.train.checkpoints import DamagedCheckpoint
from tests.distributed.test_processes import together

WHOLE: dict[str, np.ndarray] = {
    "model.w": np.arange(24, dtype=np.float32).reshape(6, 4),
    "model.b": np.array([0.5, -1.0], np.float64),
    "optimizer.steps": np.array(7, np.int64),
    "model.grid": np.arange(16, dtype=np.int32).reshape(4, 4),
    "model.empty": np.zeros((0, 3), np.float32),
}


@dataclass
class Fake:
    """A tensor whose blocks this process has. See `burn.distributed.engine.Held`."""

    whole: np.ndarray
    layout: Layout
    blocks: list[tuple[tuple[int, ...], np.ndarray]]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.whole.shape

    @property
    def dtype(self) -> str:
        return self.whole.dtype.name

    def numpy(self) -> np.ndarray:
        return self.whole

    def shards(self) -> list[tuple[tuple[int, ...], np.ndarray]]:
        return self.blocks


def tensors(own: Processes) -> dict[str, Any]:
    """The view of one process: rows of w by process, blocks of the grid in both axes, the rest whole."""
    found: dict[str, Any] = {}
    for name, array in WHOLE.items():
        if name == "model.w":
            each = 6 // own.count
            start = each * own.rank
            found[name] = Fake(array, Layout((("data",),)), [((start, 0), array[start : start + each])])
        elif name == "model.grid":
            mine = [(i, j) for n, (i, j) in enumerate(np.ndindex(2, 2)) if n % own.count == own.rank]
            blocks: list[Any] = [((2 * i, 2 * j), array[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]) for i, j in mine]
            found[name] = Fake(array, Layout((("data",), ("model",))), blocks)
        elif name == "model.b":
            found[name] = Fake(array, Layout(), [((0,), array)] if own.rank == 0 else [])
        else:
            found[name] = checkpoints.weight(array)
    return found


def written(folder: Path, count: int, step: int = 5) -> Path:
    path = checkpoints.path_of(folder, step)
    assert together(count, lambda own: parts.write(path, tensors(own), {"step": step}, own)) == [None] * count
    return path


@pytest.mark.parametrize("count", [1, 2, 3])
def test_round_trip(count: int, tmp_path: Path) -> None:
    path = written(tmp_path, count)
    assert len(checkpoints.parts_of(path)) == count
    saved = checkpoints.read(path)
    assert saved.facts["step"] == 5 and saved.facts["format"] == checkpoints.IN_PARTS
    assert {n: w.array().tolist() for n, w in saved.tensors.items()} == {n: a.tolist() for n, a in WHOLE.items()}
    assert {n: w.dtype for n, w in saved.tensors.items()} == {n: a.dtype.name for n, a in WHOLE.items()}
    assert saved.part("model").keys() == {"w", "b", "grid", "empty"}


def test_a_checkpoint_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    before = checkpoints.parts_of(written(tmp_path, 3))
    path = written(tmp_path, 2)
    assert len(checkpoints.parts_of(path)) == 2 and not set(before) & set(checkpoints.parts_of(path))
    assert checkpoints.read(path).tensors.keys() == WHOLE.keys()


def test_without_divided_tensors_it_is_a_plain_checkpoint(tmp_path: Path) -> None:
    path = checkpoints.path_of(tmp_path, 1)
    whole = {"a": checkpoints.weight(WHOLE["model.w"])}
    assert together(2, lambda own: parts.write(path, whole, {}, own)) == [None, None]
    assert checkpoints.parts_of(path) == [] and checkpoints.read(path).facts["format"] == checkpoints.FORMAT


def test_a_missing_or_changed_part_is_found(tmp_path: Path) -> None:
    written(tmp_path, 2, step=4)
    path = written(tmp_path, 2, step=5)
    first, second = checkpoints.parts_of(path)
    data = bytearray(first.read_bytes())
    data[-3] ^= 1
    first.write_bytes(data)
    with pytest.raises(DamagedCheckpoint, match="checksums"):
        checkpoints.read(path)
    second.unlink()
    with pytest.raises(DamagedCheckpoint):
        checkpoints.read(path)
    saved, errors = checkpoints.newest_whole(tmp_path)
    assert saved is not None and saved.path == checkpoints.path_of(tmp_path, 4) and len(errors) == 1


def test_a_process_that_cannot_write_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = written(tmp_path, 2, step=4)
    write = checkpoints.write

    def full(path: Path, *rest: Any) -> None:
        if "rank-00001" in path.name:
            raise ModelError(f"cannot write {path}", ["no space left on device"])
        write(path, *rest)

    monkeypatch.setattr(checkpoints, "write", full)
    path = checkpoints.path_of(tmp_path, 5)
    errors = together(2, lambda own: parts.write(path, tensors(own), {}, own))
    assert all(isinstance(error, ModelError) and "rank 1: " in str(error) for error in errors)
    assert checkpoints.parts_of(path) == [] and not path.exists()
    assert checkpoints.newest(tmp_path) == good and checkpoints.read(good).facts["step"] == 5 - 1


def test_a_process_that_is_lost_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    good = written(tmp_path, 2, step=4)
    path = checkpoints.path_of(tmp_path, 5)

    def work(own: Processes) -> None:
        if own.rank == 1:
            own._socket.shutdown(2)
            return
        parts.write(path, tensors(own), {}, own)

    assert isinstance(together(2, work)[0], DistributedError)
    assert checkpoints.newest(tmp_path) == good


def test_unshared_folders_are_refused(tmp_path: Path) -> None:
    def work(own: Processes) -> None:
        parts.write(checkpoints.path_of(tmp_path / str(own.rank), 5), tensors(own), {}, own)

    errors = together(2, work)
    assert all("part of rank 1 is not in the folder" in str(error) for error in errors)
    assert not list(tmp_path.rglob("step-*"))


def test_tidy_and_clear_remove_parts(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        written(tmp_path, 2, step)
    checkpoints.tidy(tmp_path, 3, 1, [1])
    assert list(checkpoints.found(tmp_path)) == [1, 3]
    assert len(list((tmp_path / checkpoints.FOLDER).glob("*.rank-*"))) == 4
    checkpoints.path_of(tmp_path, 3).unlink()  # as if the training had been killed before
    checkpoints.clear(tmp_path, everything=False)
    assert len(list((tmp_path / checkpoints.FOLDER).iterdir())) == 3
    checkpoints.clear(tmp_path, everything=True)
    assert list((tmp_path / checkpoints.FOLDER).iterdir()) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"x": {}}', '{"x": {"dtype": "float32", "shape": [2], "blocks": [["../y", [0]]]}}']
)
def test_a_spoiled_table(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, 1)
    with pytest.raises(DamagedCheckpoint):
        parts.read(path, text)
