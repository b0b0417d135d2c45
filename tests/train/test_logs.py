"""Logs of a training: JSON lines, TensorBoard's files, a progress line, a table."""

from __future__ import annotations

import io
import json
import struct
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn.errors import BurnError
from burn.train import JsonLines, ProgressLine, TensorBoard, events
from burn.train.events import Control, Summary
from burn.train.report import duration, spelled

TABLE = np.eye(2, dtype=int)


def story(first: int = 1, steps: int = 4, per_epoch: int = 2) -> list[events.Event]:
    """The events of a training of so many steps that begins (again) with step `first`."""
    told: list[events.Event] = [
        events.Started("run", None, "Net", "SGD", 8, 8, steps // per_epoch, per_epoch, 1, step=first - 1)
    ]
    for step in range(first, steps + 1):
        epoch, batch = divmod(step - 1, per_epoch)
        values = {"loss": 1.0 / step, "accuracy": float("nan") if step == 1 else 0.5}
        told.append(events.Stepped(epoch + 1, batch + 1, step, values, 8, 0.25, 0.0, 0.1))
        if batch + 1 == per_epoch:
            told.append(events.ValidStepped(epoch + 1, 1, {"loss": 2.0}, 0.1))
            told.append(events.Validated(epoch + 1, step, {"loss": 2.0}, 0.1))
            told.append(events.EpochEnded(epoch + 1, step, values, {"loss": 2.0}, 16, 0.7, {"valid.confusion": TABLE}))
            told.append(events.Saved(Path(f"step-{step}.safetensors"), f"epoch {epoch + 1}", epoch + 1, step, 0.01))
    summary = Summary("run", 2, steps, 65.0, "done", {"loss": 0.25}, {"loss": 2.0}, {"loss": (2.0, 1)})
    return [*told, events.Finished(summary)]


def tell(observer: events.Observer, told: list[events.Event]) -> None:
    for event in told:
        observer(event, Control())


def lines(path: Path) -> list[dict[str, Any]]:
    def strict(text: str) -> float:
        raise AssertionError(f"{text} is no JSON")

    return [json.loads(line, parse_constant=strict) for line in path.read_text().splitlines()]


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "log.jsonl"
    tell(JsonLines(path), story())
    made = lines(path)
    epoch = ["step", "step", "epoch", "save"]
    assert [line["event"] for line in made] == ["start", *epoch, *epoch, "finish"]
    assert made[1] == {
        "event": "step", "epoch": 1, "batch": 1, "step": 1, "examples": 8, "seconds": 0.25, "lr": 0.1,
        "values": {"loss": 1.0, "accuracy": None},
    }  # fmt: skip
    assert made[3]["tables"] == {"valid.confusion": [[1, 0], [0, 1]]} and made[3]["valid"] == {"loss": 2.0}


def test_json_lines_of_a_training_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    tell(JsonLines(path), story()[:-1])  # killed: the line of step 4 and what follows are of no checkpoint
    with path.open("a") as file:
        file.write('{"event": "step", "st')
    tell(JsonLines(path), story(first=3))
    made = lines(path)
    assert [line["step"] for line in made if line["event"] == "step"] == [1, 2, 3, 4]
    assert [line["event"] for line in made].count("resume") == 1 and made[-1]["event"] == "finish"
    tell(JsonLines(path), story(steps=2))  # another training
    assert [line["step"] for line in lines(path) if line["event"] == "step"] == [1, 2]


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BurnError, match="cannot write"):
        tell(JsonLines(tmp_path / "file" / "log.jsonl"), story())


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    made: Any = import_module("tensorboardX.proto.event_pb2")  # its names are made when it is imported
    tell(TensorBoard(tmp_path, every=2), story())
    (path,) = tmp_path.iterdir()
    data, found = path.read_bytes(), []
    while data:  # a record: its length, a checksum, its bytes, a checksum
        (length,) = struct.unpack("<Q", data[:8])
        event = made.Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]
        found += [(v.tag, event.step, round(v.simple_value, 4)) for v in event.summary.value]
    assert {("step/loss", 2, 0.5), ("lr", 4, 0.1), ("valid/loss", 4, 2.0), ("train/loss", 2, 0.5)} <= set(found)
    assert ("step/loss", 1, 1.0) not in found


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_an_epoch_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    tell(ProgressLine(stream), story())
    text = stream.getvalue()
    assert "\r" not in text and "\x1b" not in text
    assert text.splitlines()[1] == "epoch 2/2  loss 0.2500 (2)  accuracy 0.5000  0.7 s"
    assert "run: 2 epochs, 4 steps, 1:05" in text


def test_a_line_that_moves_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burn.train.progress.EVERY", -1.0)
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    tell(ProgressLine(stream), story())
    drawn = stream.getvalue().split("\r\x1b[K")
    assert drawn[1:3] == ["epoch 1/2  compiling the step", "epoch 1/2  1/2  loss 1  accuracy nan  0"]  # cut to fit
    assert drawn[3].startswith("epoch 1/2  2/2  loss 0.5000") and drawn[4] == "epoch 1/2  validation 1/1"
    assert drawn[5].startswith("epoch 1/2  loss 0.5000 (2)") and drawn[5].endswith("\n")


def test_numbers_for_people() -> None:
    assert [spelled(v) for v in (3.0, 0.12345, 1e-5, 12345.678, 2.5e7, float("nan"), float("inf"), 0.0)] == [
        "3", "0.1235", "1.000e-05", "12345.7", "2.500e+07", "nan", "inf", "0",
    ]  # fmt: skip
    assert [duration(s) for s in (3.21, 65, 3725)] == ["3.2 s", "1:05", "1:02:05"]


def test_a_summary() -> None:
    summary = Summary(
        "run", 1, 4, 3.0, "interrupted", {"loss": 1.0}, {"f1": 0.5}, {"f1": (0.7, 2)}, checkpoint=Path("a")
    )
    text = str(summary)
    assert text.splitlines()[0] == "run: 1 epoch, 4 steps, 3.0 s: interrupted"
    assert text.splitlines()[-1] == "checkpoint: a" and "0.7000" in text
