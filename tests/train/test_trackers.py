"""Weights & Biases and MLflow as observers, with packages that record their calls; and with mlflow itself if it is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim, train
from burn.errors import BurnError

BATCHES = [(np.ones((2, 3), np.float32), np.zeros((2, 1), np.float32))] * 4


def learner(observer: Any, folder: Path | None = None, **options: Any) -> train.Learner:
    burn.manual_seed(0)
    net = nn.Linear(3, 1)
    options = {
        "metrics": [train.metrics.MAE()],
        "observers": [observer],
        "folder": folder,
        "progress": False,
        **options,
    }
    return train.Learner(net, nn.MSELoss(), optim.SGD(net, lr=0.1), **options)


class FakeRun:
    def __init__(self, id: str, calls: list[Any]) -> None:
        self.id, self.calls = id, calls

    def log(self, data: dict[str, Any], step: int | None = None) -> None:
        self.calls.append((step, data))

    def finish(self, exit_code: int | None = None) -> None:
        self.calls.append(("finish", exit_code))


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    fake: Any = ModuleType("wandb")

    def init(**options: Any) -> FakeRun:
        calls.append(("init", options))
        return FakeRun(options.get("id", "new"), calls)

    fake.init = init
    monkeypatch.setitem(sys.modules, "wandb", fake)

    def observer() -> train.Wandb:
        return train.Wandb(project="p", every=2, config={"width": 3})

    learner(observer(), tmp_path / "run").fit(BATCHES, BATCHES[:1], epochs=1)
    name, options = calls[0]
    assert name == "init" and options["project"] == "p" and options["name"] == "run" and "id" not in options
    assert options["config"]["width"] == 3 and options["config"]["model"] == "Linear"
    steps = [step for step, _ in calls[1:-1]]
    assert steps == [2, 4, 4] and calls[-1] == ("finish", 0)
    assert set(calls[1][1]) == {"step/loss", "step/mae", "lr"}
    assert set(calls[3][1]) == {"train/loss", "train/mae", "valid/loss", "valid/mae", "epoch"}
    calls.clear()
    learner(observer(), tmp_path / "run").fit(BATCHES, BATCHES[:1], epochs=2, resume=True)
    assert calls[0][1]["id"] == "new" and calls[0][1]["resume"] == "allow" and calls[1][0] == 6
    calls.clear()
    learner(observer()).fit(BATCHES, epochs=1, fast_dev_run=True)
    assert not calls
    with pytest.raises(BurnError):
        learner(observer()).fit([(np.full((2, 3), np.nan, np.float32), BATCHES[0][1])], epochs=1)
    assert calls[-1] == ("finish", 1)


class FakeClient:
    def __init__(self) -> None:
        self.calls = CALLS

    def get_experiment_by_name(self, name: str) -> Any:
        return None

    def create_experiment(self, name: str) -> str:
        self.calls.append(("experiment", name))
        return "7"

    def create_run(self, experiment_id: str, run_name: str | None = None, tags: Any = None) -> Any:
        self.calls.append(("run", experiment_id, run_name, tags))
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def update_run(self, run_id: str, status: str | None = None, name: str | None = None) -> None:
        self.calls.append(("update", run_id, status))

    def log_param(self, run_id: str, key: str, value: Any) -> None:
        self.calls.append(("param", key, value))

    def log_metric(self, run_id: str, key: str, value: float, timestamp: Any = None, step: int | None = None) -> None:
        self.calls.append(("metric", run_id, key, step))

    def set_terminated(self, run_id: str, status: str | None = None) -> None:
        self.calls.append(("end", run_id, status))


CALLS: list[Any] = []


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = ModuleType("mlflow")
    fake.MlflowClient = FakeClient
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    CALLS.clear()
    options: dict[str, Any] = {"metrics": [train.metrics.CpuLoad()]}
    learner(train.MLflow("digits", every=4, tags={"a": "b"}), tmp_path / "run", **options).fit(BATCHES, epochs=1)
    assert CALLS[:2] == [("experiment", "digits"), ("run", "7", "run", {"a": "b"})]
    assert ("param", "model", "Linear") in CALLS and ("metric", "r1", "step/cpu _", 4) in CALLS
    assert ("metric", "r1", "train/loss", 4) in CALLS and CALLS[-1] == ("end", "r1", "FINISHED")
    CALLS.clear()
    learner(train.MLflow("digits"), tmp_path / "run", **options).fit(BATCHES, epochs=2, resume=True)
    assert CALLS[0] == ("update", "r1", "RUNNING") and CALLS[-1] == ("end", "r1", "FINISHED")


def test_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, make in (("wandb", train.Wandb), ("mlflow", train.MLflow)):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(BurnError, match=f"pip install {name}"):
            make()


def test_mlflow_itself(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    learner(train.MLflow("digits", every=1)).fit(BATCHES, BATCHES[:1], epochs=2)
    (run,) = mlflow.MlflowClient().search_runs([mlflow.get_experiment_by_name("digits").experiment_id])
    assert run.info.status == "FINISHED" and {"valid/mae", "train/loss", "lr"} <= run.data.metrics.keys()
