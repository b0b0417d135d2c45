"""Named sets of validation data, trials, the learning-rate finder, anomalies, and steps over several batches in a Learner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import data, nn, optim, train
from burn.errors import BurnError, TypeMismatch
from burn.train import events, metrics


class Net(nn.Module):
    def __init__(self) -> None:
        self.body = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.2), nn.BatchNorm1d(6))
        self.head = nn.Linear(6, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.head(self.body(x))


def rows(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    return (rng.standard_normal((count, 4)) + y[:, None]).astype(np.float32), y


def learner(folder: Path | None = None, **options: Any) -> train.Learner:
    burn.manual_seed(0)
    net = Net()
    options = {"metrics": [metrics.Accuracy()], "progress": False, "folder": folder, **options}
    return train.Learner(net, nn.CrossEntropyLoss(), optim.AdamW(net, lr=0.01), **options)


def test_named_sets(tmp_path: Path) -> None:
    """Each has its values; the first is what plain names mean; checkpoints, stopping and logs go by their names."""
    sets = {"easy": [rows(1, 7), rows(2, 3)], "hard": data.Loader(rows(3, 5), 2)}
    seen: list[tuple[str, int]] = []

    def watch(event: Any, control: Any) -> None:
        if isinstance(event, events.ValidStepped):
            seen.append((event.split, event.batch))

    stop = train.EarlyStopping("hard/loss", patience=9)
    made = learner(tmp_path / "a", keep=train.Keep(best=["hard/loss", "accuracy"]), observers=[watch, stop])
    summary = made.fit([rows(0, 8)], sets, epochs=2)
    assert set(summary.valid) == {"loss", "accuracy", "easy/loss", "easy/accuracy", "hard/loss", "hard/accuracy"}
    assert summary.valid["loss"] == summary.valid["easy/loss"] != summary.valid["hard/loss"]
    assert seen[:5] == [("easy", 1), ("easy", 2), ("hard", 3), ("hard", 4), ("hard", 5)]
    assert {"hard/loss", "loss"} <= summary.best.keys()
    for name, rest in sets.items():
        alone = made.evaluate(rest)
        assert alone == {n.partition("/")[2]: v for n, v in made.evaluate(sets).items() if n.startswith(f"{name}/")}
        assert alone["loss"] == summary.valid[f"{name}/loss"]
    log = [json.loads(line) for line in (tmp_path / "a" / "log.jsonl").read_text().splitlines()]
    (*_, last) = (line for line in log if line["event"] == "epoch")
    assert last["valid"]["hard/loss"] == summary.valid["hard/loss"]
    parts = learner(tmp_path / "b", observers=[train.EarlyStopping("hard/loss", patience=9)])
    parts.fit([rows(0, 8)], sets, epochs=1)
    parts = learner(tmp_path / "b", observers=[train.EarlyStopping("hard/loss", patience=9)])
    assert parts.fit([rows(0, 8)], sets, epochs=2, resume=True).history == summary.history
    with pytest.raises(TypeMismatch, match="'hard/los'"):
        learner(keep=train.Keep(best="hard/los")).fit([rows(0, 8)], sets, epochs=1)
    with pytest.raises(TypeMismatch, match="no metric 'hard/loss'"):
        learner(observers=[stop]).fit([rows(0, 8)], [rows(1, 2)], epochs=1)
    with pytest.raises(TypeMismatch, match="without dots"):
        made.evaluate({"a.b": [rows(0, 2)]})
    with pytest.raises(BurnError, match=r"no batch of validation \(hard\)"):
        learner().fit([rows(0, 8)], {"easy": [rows(1, 2)], "hard": []}, epochs=1)


def state(made: train.Learner) -> dict[str, np.ndarray]:
    return {**made.model.state_dict(), **made.optimizers[""].state_dict()}


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_a_trial_changes_nothing(tmp_path: Path) -> None:
    logged: list[str] = []

    class Log:
        skips_trials = True

        def __call__(self, event: Any, control: Any) -> None:
            logged.append(type(event).__name__)

    loader = data.Loader(rows(0, 20), 4, shuffle=True, seed=1)
    made = learner(tmp_path / "a", observers=[Log(), lambda event, control: logged.append("mine")])
    before = {name: array.copy() for name, array in state(made).items()}
    summary = made.fit(loader, {"a": [rows(1, 3)] * 9, "b": [rows(2, 3)]}, epochs=7, fast_dev_run=True)
    assert summary.steps == summary.epochs == 1 and summary.folder is None and set(logged) == {"mine"}
    assert not (tmp_path / "a").exists() and same(state(made), before)
    assert made.fit(loader, epochs=1, fast_dev_run=3).steps == 3
    after = made.fit(loader, epochs=2)
    other = learner()
    assert other.fit(data.Loader(rows(0, 20), 4, shuffle=True, seed=1), epochs=2).history == after.history
    assert same(state(made), state(other))
    for wrong in ({"fast_dev_run": -1}, {"fast_dev_run": 1, "resume": True}):
        with pytest.raises(TypeMismatch, match="fast_dev_run"):
            made.fit(loader, epochs=1, **wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeMismatch, match="in Linear"):
        made.fit([(np.ones((2, 9), np.float32), np.ones(2, np.int64))], epochs=1, fast_dev_run=True)
    assert same(state(made), state(other))


def test_the_rate_finder() -> None:
    """On a quadratic whose losses are known: each step's rate grows, and the loss falls fastest in between."""
    made = learner(accumulate=2)
    before = {name: array.copy() for name, array in state(made).items()}
    curve = made.find_rate([rows(i, 16) for i in range(3)], low=1e-5, high=10.0, steps=40)
    np.testing.assert_allclose(curve.rates, 1e-5 * 1e6 ** (np.arange(len(curve.rates)) / 39), rtol=1e-6)
    average, want = 0.0, []
    for i, value in enumerate(curve.losses):
        average = 0.98 * average + 0.02 * value
        want.append(average / (1 - 0.98 ** (i + 1)))
    np.testing.assert_allclose(curve.smoothed, want, rtol=1e-12)
    assert curve.suggestion is not None and 1e-5 < curve.suggestion < 10 and same(state(made), before)
    assert made.optimizers[""].lr == 0.01 and "svg" in curve._repr_html_()
    net = Net()
    scheduled = train.Learner(net, nn.CrossEntropyLoss(), optim.SGD(net, lr=optim.cosine(0.1, 10)), progress=False)
    with pytest.raises(TypeMismatch, match="schedule"):
        scheduled.find_rate([rows(0, 4)])
    with pytest.raises(TypeMismatch, match="low < high"):
        made.find_rate([rows(0, 4)], low=1.0, high=0.1)
    with pytest.raises(TypeMismatch, match="1 of 9"):
        made.find_rate(iter([rows(0, 4)]), steps=9)
    assert train.RateCurve([1.0] * 4, [1.0] * 4, [1.0] * 4).suggestion is None


MODES: list[dict[str, Any]] = [{"accumulate": 2}, {"precision": "bfloat16"}, {"accumulate_batches": 2}]


class Fragile(nn.Module):
    """A logarithm of something that is negative for some batches."""

    def __init__(self) -> None:
        self.linear = nn.Linear(4, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        y = burn.log(x)  # the line that an error names
        return self.linear(y)


@pytest.mark.parametrize(
    "options",
    [{}, *(pytest.param(o, marks=pytest.mark.slow) for o in MODES)],
    ids=["plain", *("".join(o) for o in MODES)],
)
def test_an_anomaly_names_the_op_and_the_line(options: dict[str, Any]) -> None:
    net = Fragile()
    good = (np.ones((2, 4), np.float32), np.zeros(2, np.int64))
    bad = (np.array([[1, 1, 1, 1], [1, -1, 1, 1]], np.float32), np.zeros(2, np.int64))
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "the line that an error names" in text)
    made = train.Learner(net, nn.CrossEntropyLoss(), optim.SGD(net, lr=0.1), progress=False, anomaly=True, **options)
    made.fit([good, good], epochs=1)
    before = net.linear.weight.numpy().copy()
    with pytest.raises(BurnError, match=rf"(?s)epoch 1, batch 1.*log.*test_trials\.py.?.?.?.?.?.?.?{line}"):
        made.fit([bad, good], epochs=1)
    assert np.array_equal(net.linear.weight.numpy(), before)
    if not options:
        with pytest.raises(BurnError, match=rf"(?s)batch 1 of validation.*log.*{line}"):
            made.fit([good], [bad], epochs=1)
        plain = train.Learner(net, nn.CrossEntropyLoss(), optim.SGD(net, lr=0.1), progress=False)
        with pytest.raises(BurnError, match=r"anomaly=True"):
            plain.fit([bad], epochs=1)


def test_anomalies_of_infinities_and_what_is_refused() -> None:
    net = Fragile()
    zero = (np.zeros((2, 4), np.float32), np.zeros(2, np.int64))
    made = train.Learner(net, nn.CrossEntropyLoss(), optim.SGD(net, lr=0.1), progress=False, anomaly="inf")
    with pytest.raises(BurnError, match=r"(?s)log.*test_trials"):
        made.fit([zero], epochs=1)
    for wrong, told in (
        ({"anomaly": "all"}, "anomaly is 'all'"),
        ({"anomaly": True, "precision": "float16"}, "float16"),
    ):
        with pytest.raises(TypeMismatch, match=told):
            # pyrefly: ignore  # of arguments of several types
            learner(**wrong)


def test_several_batches_make_a_step(tmp_path: Path) -> None:
    """As one batch with all rows, in values, metrics and checkpoints; the last step has fewer."""
    sizes = [3, 1, 4, 2, 5]
    parts = [rows(i, n) for i, n in enumerate(sizes)]
    joined = [tuple(map(np.concatenate, zip(*parts[i : i + 2], strict=True))) for i in (0, 2, 4)]
    plain = {"metrics": [metrics.Accuracy(), metrics.AUROC()]}

    def still(folder: Path | None = None, **options: Any) -> train.Learner:
        made = learner(folder, **plain, **options)
        made.model.body = nn.Sequential(nn.Linear(4, 6), nn.Tanh())  # dropout and statistics go by batches
        made.model.body[0].weight.assign(np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4))
        made.model.body[0].bias.assign(np.zeros(6, np.float32))
        made.model.train()
        return made

    seen: list[events.Stepped] = []

    def watch(event: Any, control: Any) -> None:
        if isinstance(event, events.Stepped):
            seen.append(event)

    grouped = still(tmp_path / "a", accumulate_batches=2, observers=[watch])
    first, other = grouped.fit(parts, epochs=2), still().fit(joined, epochs=2)
    assert first.steps == other.steps == 6 and [e.examples for e in seen[:3]] == [4, 6, 5]
    for a, b in zip(first.history, other.history, strict=True):
        np.testing.assert_allclose([*a["train"].values()], [*b["train"].values()], rtol=1e-5)
    resumed = still(tmp_path / "b", accumulate_batches=2, keep=train.Keep(every=2))
    resumed.fit(parts, epochs=1)
    resumed = still(tmp_path / "b", accumulate_batches=2)
    assert resumed.fit(parts, epochs=2, resume=True).history == first.history
    for wrong in (
        {"accumulate_batches": 0},
        {"accumulate_batches": 2, "accumulate": 2},
        {"accumulate_batches": 2, "step": print},
    ):
        with pytest.raises(TypeMismatch, match="accumulate_batches"):
            # pyrefly: ignore  # of arguments of several types
            learner(**wrong)
    with pytest.raises(BurnError, match="entry 0 of the batch holds NaN"):
        still(accumulate_batches=2).fit([parts[0], (np.full((2, 4), np.nan, np.float32), parts[3][1])], epochs=1)
