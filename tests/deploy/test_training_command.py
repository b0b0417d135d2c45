"""The command of a training: the epochs of burn.train.Learner on .npz files, bit for bit, and one line for whatever is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import data, nn, optim
from burn.deploy import trainers, training
from burn.train import checkpoints
from burn.train.metrics import Accuracy
from tests.deploy.making import Array, options, refusal, run
from tests.deploy.training import CASES, Classifier, classify, made

pytestmark = pytest.mark.untuned  # results have the bits of `burn.load`, and deployed programs are not tuned

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
    """A training from seed 0, with a file of weights beside it."""
    burn.manual_seed(0)
    model = Small()
    found = training.of(burn.train.step(model, classify, _optimizer(model)), CASES["classifier"].inputs)
    output = tmp_path_factory.mktemp("command") / "train"
    return trainers.build("exe", found, output, options(name="net", beside=True))[0]


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
    words = ["--batch", "16", "--seed", "5"]
    run(command, rows / "first.npz", rows / "second.npz", *words, "--save", first)  # the same rows
    burn.manual_seed(77)
    other = Small()
    _learner(other, tmp_path / "second").fit(_loader(rows), epochs=2, resume=first)
    second = checkpoints.newest(tmp_path / "second")
    assert second is not None
    last = tmp_path / "last.safetensors"
    run(command, rows / "whole.npz", *words, "--epochs", "3", "--resume", second, "--save", last)
    saved = checkpoints.read(last)
    for name, array in whole.items():
        np.testing.assert_array_equal(saved.tensors[f"model.{name}"].array(), array, name)
    assert saved.facts["epoch"] == 4 and saved.facts["step"] == 12 and len(saved.facts["history"]) == 1
    run(command, rows / "whole.npz", *words, "--load", second, "--save", last)  # the state alone
    facts = checkpoints.read(last).facts
    assert facts["epoch"] == 2 and facts["step"] == 12 and facts["history"] == [] and "others" not in facts


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


def test_positions_that_there_are_not(command: Path, rows: Path, tmp_path: Path) -> None:
    """A checkpoint with valid checksums, whose position lies outside of the data."""
    saved, changed = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    run(command, rows / "whole.npz", "--batch", "16", "--save", saved)
    found = checkpoints.read(saved)
    data = found.facts["data"]
    positions: list[dict[str, Any]] = [
        {"data": {**data, "epoch": epoch, "batch": batch}}
        for epoch, batch in (
            (-1, 0),
            (0, -1),
            (0, 5),
            (0, 2**40),
            (2**62, 0),
            (2**63 - 1, 0),
            (2**70, 0),
            (-(2**63), 0),
        )
    ]
    bare: dict[str, Any] = {"data": None, "batch": 0}
    positions += [
        {**bare, "epoch": 0},
        {**bare, "epoch": 2**62},
        {**bare, "epoch": -1},
        {"epoch": 2**63},
        {"batch": -1},
    ]
    positions += [{"step": 2**63 - 1}, {**bare, "batch": 3}]
    for position in positions:
        checkpoints.write(changed, found.tensors, {**found.facts, **position})
        words = (rows / "whole.npz", "--batch", "16", "--epochs", "3", "--resume", changed)
        assert refusal(command, *words, "--save", saved)[0] == 1, position
    checkpoints.write(changed, found.tensors, {**found.facts, "data": {**data, "epoch": 0, "batch": 4}})
    run(command, rows / "whole.npz", "--batch", "16", "--epochs", "2", "--resume", changed)  # the end of an epoch


def test_what_cannot_be_done_is_said_before_the_work(command: Path, rows: Path, tmp_path: Path) -> None:
    whole, weights = rows / "whole.npz", command.with_name("train.weights.safetensors")
    long = [whole, "--epochs", "1000000000"]
    before = weights.read_bytes()
    (tmp_path / "link.safetensors").symlink_to(weights)
    for words, message in (
        (["--save", "/nowhere/a.safetensors"], "/nowhere/a.safetensors: No such file"),
        (["--save", tmp_path], "Is a directory"),
        (["--save", weights], "this program's file of weights"),
        (["--save", tmp_path / "link.safetensors"], "this program's file of weights"),
        (["--predict", whole, "-o", "/nowhere/a.npz"], "/nowhere/a.npz: No such file"),
        (["--predict", whole, "-o", weights], "this program's file of weights"),
        (["--predict", tmp_path / "none.npz"], "none.npz: No such file"),
    ):
        assert message in refusal(command, *long, *words)[1], words
    assert weights.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["link.safetensors"]
    for words, message in (
        (["--batch", "0"], "--batch takes a number from 1 to 1000000000, not '0'"),
        (["--seed", "-1"], "--seed takes a number from 0 to 9223372036854775807, not '-1'"),
    ):
        assert message in refusal(command, whole, *words)[1], words
    assert b"  1 steps" in run(command, whole, "--batch", "1000000000")
    Small().save(tmp_path / "weights.safetensors")
    assert "holds tensors alone" in refusal(command, whole, "--resume", tmp_path / "weights.safetensors")[1]
    run(command, whole, "--load", tmp_path / "weights.safetensors")


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
