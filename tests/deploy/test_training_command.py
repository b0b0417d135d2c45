"""The command of a training: the epochs of burn.train.Learner on .npz files, bit for bit, and one line for whatever is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import burn
from burn import data, nn, optim
from burn.train import checkpoints
from burn.train.metrics import Accuracy
from tests.deploy.making import Array, refusal, run
from tests.deploy.training import CASES, Classifier, classify, made

ROWS = 50


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with the rows: whole.npz, and first.npz and second.npz, which are its parts."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, ROWS)
    x = (rng.standard_normal((ROWS, 8)) + y[:, None]).astype(np.float32)
    folder = tmp_path_factory.mktemp("rows")
    np.savez(folder / "whole.npz", x=x, y=y, note=np.zeros(3))
    np.savez_compressed(folder / "first.npz", x=x[:13], y=y[:13])
    np.savez(folder / "second.npz", y=y[13:], x=x[13:])
    return folder


class Small(nn.Module):
    """Compiles fast. x float32[batch, 8] -> float32[batch, 3]."""

    def __init__(self) -> None:
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(8, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.head(self.drop(x))


def _optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.SGD(model, lr=optim.cosine(0.05, 40, warmup=3), momentum=0.9)


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training from seed 0."""
    burn.manual_seed(0)
    model = Small()
    step = burn.train.step(model, classify, _optimizer(model))
    return made(step, CASES["classifier"].inputs, tmp_path_factory.mktemp("command") / "train", "exe")


def _learner(model: nn.Module, folder: Path) -> burn.train.Learner:
    return burn.train.Learner(model, classify, _optimizer(model), folder=folder, progress=False)


def _loader(rows: Path, shuffle: bool = True) -> data.Loader:
    with np.load(rows / "whole.npz") as found:
        return data.Loader((found["x"], found["y"]), 16, shuffle=shuffle, seed=5)


def _same(path: Path, model: nn.Module) -> None:
    saved = checkpoints.read(path)
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(saved.tensors[f"model.{name}"].array(), array, name)


def test_the_epochs_of_a_learner(command: Path, rows: Path, tmp_path: Path) -> None:
    """An epoch in the binary, the next one by a Learner, the last one by the binary again: as three by the Learner."""
    burn.manual_seed(0)
    model = Small()
    _learner(model, tmp_path / "whole").fit(_loader(rows), epochs=3)
    whole = {name: array.copy() for name, array in model.state_dict().items()}
    ours = tmp_path / "ours.safetensors"
    said = run(command, rows / "whole.npz", "--batch", "16", "--seed", "5", "--epochs", "3", "--save", ours).decode()
    assert [line.split("  ")[0] for line in said.splitlines()] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    _same(ours, model)
    losses = [float(line.split("loss ")[1].split(" ")[0]) for line in said.splitlines()]
    history = checkpoints.read(checkpoints.newest(tmp_path / "whole") or "").facts["history"]
    assert losses == [round(row["train"]["loss"], 4) for row in history]

    first = tmp_path / "first.safetensors"
    options = ["--batch", "16", "--seed", "5"]
    run(command, rows / "first.npz", rows / "second.npz", *options, "--save", first)  # the same rows
    burn.manual_seed(77)
    other = Small()
    _learner(other, tmp_path / "second").fit(_loader(rows), epochs=2, resume=first)
    second = checkpoints.newest(tmp_path / "second")
    assert second is not None
    last = tmp_path / "last.safetensors"
    run(command, rows / "whole.npz", *options, "--epochs", "3", "--resume", second, "--save", last)
    saved = checkpoints.read(last)
    for name, array in whole.items():
        np.testing.assert_array_equal(saved.tensors[f"model.{name}"].array(), array, name)
    assert saved.facts["epoch"] == 4 and saved.facts["step"] == 12 and len(saved.facts["history"]) == 1


def test_rows_in_order(command: Path, rows: Path, tmp_path: Path) -> None:
    burn.manual_seed(0)
    model = Small()
    _learner(model, tmp_path / "run").fit(_loader(rows, shuffle=False), epochs=1)
    saved = tmp_path / "a.safetensors"
    said = run(command, rows / "whole.npz", "--batch", "16", "--no-shuffle", "--save", saved, "--every", "2").decode()
    assert [line.split("  ")[0] for line in said.splitlines()] == ["step 2", "step 4", "epoch 1/1"]
    _same(saved, model)


def test_inference(command: Path, rows: Path, tmp_path: Path) -> None:
    saved = tmp_path / "a.safetensors"
    run(command, rows / "whole.npz", "--save", saved, "--predict", rows / "first.npz", "-o", tmp_path / "a.npz")
    run(command, "--load", saved, "--predict", rows / "first.npz", "-o", tmp_path / "b.npz")
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b:
        assert a["output"].shape == (13, 3)
        np.testing.assert_array_equal(a["output"], b["output"])
    assert run(command, "--predict", rows / "first.npz").decode().startswith("output [13, 3]: ")
    about = json.loads(run(command, "--info"))
    assert [v["name"] for v in about["step"]["inputs"]] == ["x", "y"]
    assert "--epochs" in run(command, "--help").decode()


def test_an_interrupted_training_goes_on(command: Path, rows: Path, tmp_path: Path) -> None:
    """Ctrl-C ends the training after a step, in the middle of an epoch; --resume makes the rest of it."""
    whole, part, rest = (tmp_path / f"{name}.safetensors" for name in ("whole", "part", "rest"))
    words = [rows / "whole.npz", "--batch", "2", "--epochs", "4000"]
    with subprocess.Popen(
        [command, *words, "--every", "10", "--save", part], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("step 10")
        running.send_signal(signal.SIGINT)
        said = running.stdout.read()
    assert running.returncode == 130 and "interrupted after" in said
    facts = checkpoints.read(part).facts
    assert facts["step"] == ROWS // 2 * (facts["epoch"] - 1) + facts["batch"] > 0
    epochs = str(facts["epoch"] + 1)
    run(command, rows / "whole.npz", "--batch", "2", "--epochs", epochs, "--resume", part, "--save", rest)
    run(command, rows / "whole.npz", "--batch", "2", "--epochs", epochs, "--save", whole)
    for name, weight in checkpoints.read(whole).tensors.items():
        np.testing.assert_array_equal(weight.array(), checkpoints.read(rest).tensors[name].array(), name)


def test_wrong_files(command: Path, rows: Path, tmp_path: Path) -> None:
    with np.load(rows / "whole.npz") as found:
        x, y = found["x"], found["y"]

    def fails(message: str, *words: str | Path, status: int = 1, **arrays: Array) -> None:
        np.savez(tmp_path / "in.npz", **arrays)  # type: ignore[arg-type]
        assert message in (said := refusal(command, *([tmp_path / "in.npz"] if arrays else []), *words))[1], said
        assert said[0] == status, said

    fails("has no array 'y', int64[batch]: there is x, labels", x=x, labels=y)
    fails("input 'x' must be float32[batch, 8], and is of numpy's type f8", x=x.astype(np.float64), y=y)
    fails("array 'x' must be float32[batch, 8], and has the shape [50, 7]", x=x[:, :7], y=y)
    fails("'x' has 50 rows, and 'y' 49", x=x, y=y[1:])
    fails("its columns come first", x=np.asfortranarray(x), y=y)
    fails("has no rows", x=x[:0], y=y[:0])
    fails("the loss of step 1 (epoch 1, batch 1) is nan", x=x * np.float32(np.nan), y=y)
    fails("out of range", x=x, y=y + 7)
    (tmp_path / "text.npz").write_text("no zip file")
    fails("text.npz is not a .npz file", tmp_path / "text.npz")
    fails("nothing to train on", status=2)
    fails("'--epoch' is no option", "--epoch", "3", status=2, x=x, y=y)
    fails("both give the state", "--load", "a", "--resume", "b", status=2, x=x, y=y)
    fails("No such file", "--load", "/nowhere.safetensors", x=x, y=y)
    saved = tmp_path / "a.safetensors"
    run(command, rows / "whole.npz", "--save", saved)
    fails("is of other rows or options", rows / "whole.npz", "--resume", saved, "--seed", "1")
    run(command, rows / "whole.npz", "--load", saved, "--seed", "1")


@pytest.mark.slow
def test_batches_of_a_fixed_size(rows: Path, tmp_path: Path) -> None:
    burn.manual_seed(0)
    step = CASES["classifier"].make()
    command = made(step, {"x": "float32[16, 8]", "y": "int64[16]"}, tmp_path / "train", "exe")
    assert "--drop-last" in refusal(command, rows / "whole.npz")[1]
    assert "compiled for batches of 16" in refusal(command, rows / "whole.npz", "--batch", "8")[1]
    assert "3 steps" in run(command, rows / "whole.npz", "--drop-last").decode()


@pytest.mark.slow
def test_a_learner_with_metrics(rows: Path, tmp_path: Path) -> None:
    """Metrics are Python's; the step's bits are the same without them."""
    burn.manual_seed(1)
    model = Classifier()
    learner = burn.train.Learner(
        model, burn.nn.CrossEntropyLoss(), optim.SGD(model, lr=0.1), metrics=[Accuracy()], progress=False
    )
    command = made(learner, CASES["classifier"].inputs, tmp_path / "train", "exe")
    run(
        command,
        rows / "whole.npz",
        "--batch",
        "16",
        "--seed",
        "5",
        "--epochs",
        "2",
        "--save",
        tmp_path / "a.safetensors",
    )
    learner.fit(_loader(rows), epochs=2)
    _same(tmp_path / "a.safetensors", model)
