"""`burn train`: experiments, their configurations set from the command line, and what it says of mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from burn.cli.train import main

SOURCE = """
import numpy as np
import burn
from burn import nn, optim, train

class Line(train.Experiment):
    width: int = 4
    name: str = "plain"
    batch: int = 8
    optimizer: optim.SGD.Config = optim.SGD.Config(lr=0.1)

    def learner(self):
        model = nn.Sequential(nn.Linear(3, self.width), nn.Linear(self.width, 1))
        return train.Learner(model, nn.MSELoss(), self.optimizer.init(model), name=self.name)

    def data(self):
        x = np.random.default_rng(self.seed).standard_normal((32, 3)).astype(np.float32)
        y = x.sum(1, keepdims=True)
        return [(x[i : i + self.batch], y[i : i + self.batch]) for i in range(0, 32, self.batch)], [(x, y)]

experiment = Line(epochs=2)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "line.py"
    path.write_text(SOURCE)
    return path


def ran(*arguments: Any, status: int = 0) -> str:
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == status, (done.output, done.exception)
    return done.output


def test_train_and_resume(source: Path, tmp_path: Path, own_cache: Path) -> None:
    folder = tmp_path / "run"
    told = ran(f"{source}:experiment", "--set", "optimizer.lr=5e-2", "--set", "name=3", "--dir", folder)
    assert "epoch 2/2" in told and "checkpoint:" in told
    assert json.loads((folder / "config.json").read_text()) == {
        "epochs": 2,
        "seed": 0,
        "width": 4,
        "name": "3",
        "batch": 8,
        "optimizer": {
            "lr": 0.05,
            "momentum": 0.0,
            "dampening": 0.0,
            "weight_decay": 0.0,
            "nesterov": False,
            "groups": [],
        },
    }
    assert "has a training already" in ran(f"{source}:experiment", "--dir", folder, status=1)
    told = ran(f"{source}:Line", "--dir", folder, "--resume", "--epochs", "3")
    assert "goes on behind step 8" in told and "epoch 3/3" in told and "epoch 2/3" not in told
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["event"] == "step"] == list(range(1, 13))
    assert {line["lr"] for line in lines if line["event"] == "step"} == {0.05}
    assert ran(f"{source}:Line", "--dir", folder, "--overwrite", "--show", "none") == ""


def test_print_the_configuration(source: Path) -> None:
    assert "lr: 0.01\n" in ran(f"{source}:Line", "--set", "optimizer.lr=1e-2", "--config")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--set", "optimizer.lrr=1", "--set", "widht=3"],
            ["no field 'lrr' (did you mean 'lr'?)", "did you mean 'width'"],
        ),
        (["--set", "width=wide"], ["'width'", "must be int, not 'wide'"]),
        (["--set", "optimizer.lr=fast"], ["'optimizer.lr'", "must be float or a function, not 'fast'"]),
        (["--set", "width.x=1"], ["has no fields"]),
        (["--set", "epochs=0"], ["must be at least 1"]),
        (["--set", "optimizer.lr=-1"], ["lr is -1"]),
        (["--resume"], ["--resume goes with --dir"]),
        (["--show", "dashboard"], ["dashboard"]),
    ],
)
def test_mistakes(source: Path, arguments: list[str], told: list[str]) -> None:
    text = " ".join(
        ran(
            f"{source}:experiment",
            *arguments,
            status=2 if "--set" not in arguments and "--show" not in arguments else 1,
        ).split()
    )
    for part in told:
        assert part in text


@pytest.mark.parametrize(("device", "told"), [("gpu", "there is no device 'gpu'"), ("cuda:9999", "cuda:9999")])
def test_no_such_device(source: Path, tmp_path: Path, device: str, told: str) -> None:
    folder = tmp_path / "run"
    assert told in ran(f"{source}:experiment", "--device", device, "--dir", folder, status=1)
    assert not folder.exists()


def test_what_is_no_experiment(source: Path) -> None:
    assert "is no experiment" in ran(f"{source}:nn", status=1)
    assert "has no 'other'" in ran(f"{source}:other", status=1)


def test_interrupted(source: Path, tmp_path: Path) -> None:
    source.write_text(SOURCE.replace("epochs=2", "epochs=100000"))
    folder = tmp_path / "run"
    line = [sys.executable, "-m", "burn.cli.main", "train", f"{source}:experiment", "--dir", folder, "--show", "line"]
    with subprocess.Popen(list(map(str, line)), stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        while not child.stdout.readline().startswith("epoch 3/"):
            pass
        os.kill(child.pid, signal.SIGINT)
        rest = child.stdout.read()
        assert child.wait() == 130
    assert "interrupted: stopped after step" in rest
    assert list((folder / "checkpoints").iterdir())
