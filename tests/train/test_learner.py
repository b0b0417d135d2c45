"""`Learner`: what it trains is what the step trains, whatever the batches come from, and it says what goes wrong."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.data import Loader
from burn.errors import BurnError, InputError, ModelError, TypeMismatch
from burn.train import EarlyStopping, Feed, Keep, Learner, Summary, TrainingError, checkpoints, events, fitting
from burn.train.metrics import AUROC, R2, Accuracy, ConfusionMatrix, Metric, Throughput

rng = np.random.default_rng(1)
Y = rng.integers(0, 3, 29)
X = (rng.standard_normal((29, 4)) + Y[:, None]).astype(np.float32)
BATCHES = [(X[i : i + 8], Y[i : i + 8]) for i in range(0, 29, 8)]  # the last one is smaller


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache that the tests of this module share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BURN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("BURN_CACHE_SIZE")
        yield


class Net(nn.Module):
    def __init__(self) -> None:
        self.first, self.drop, self.head = nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.head(self.drop(burn.relu(self.first(x))))


def made(seed: int = 0, lr: Any = 0.05, loss: Any = None, **options: Any) -> Learner:
    burn.manual_seed(seed)
    model = Net()
    options = {"metrics": [Accuracy()], "progress": False, **options}
    return Learner(model, loss or nn.CrossEntropyLoss(), optim.AdamW(model, lr=lr), **options)


def bits(learner: Learner) -> dict[str, bytes]:
    state = {**learner.model.state_dict(), **learner.optimizers[""].state_dict()}
    return {name: array.tobytes() for name, array in state.items()}


class Seen(list[Any]):
    """An observer that remembers events."""

    def __call__(self, event: events.Event, control: events.Control) -> None:
        self.append(event)

    def of(self, cls: type) -> list[Any]:
        return [e for e in self if isinstance(e, cls)]


def at_step(step: int, act: Callable[[events.Control], Any]) -> events.Observer:
    def observe(event: events.Event, control: events.Control) -> None:
        if isinstance(event, events.Stepped) and event.step == step:
            act(control)

    return observe


# ---- training ----------------------------------------------------------------------------------------------------------
def test_it_trains_as_the_step_does() -> None:
    seen = Seen()
    learner = made(lr=optim.cosine(0.05, 100), metrics=[Accuracy(), ConfusionMatrix(3), Throughput()], observers=[seen])
    inner: Any = learner.model
    inner.drop.eval()  # a mode that the user chose
    summary = learner.fit(BATCHES, BATCHES[:2], epochs=2)
    assert learner.programs == 1 and learner.model.training and not inner.drop.training

    burn.manual_seed(0)
    model = Net()
    step = burn.train.step(
        model, lambda m, x, y: nn.CrossEntropyLoss()(m(x), y), optim.AdamW(model, lr=optim.cosine(0.05, 100))
    )
    model.drop.eval()
    losses = [float(step(*batch)) for _ in range(2) for batch in BATCHES]
    steps = seen.of(events.Stepped)
    assert [e.values["loss"] for e in steps] == pytest.approx(losses, rel=1e-6)
    for path, p in model.named_parameters():
        np.testing.assert_allclose(learner.model.state_dict()[path], p.array, rtol=1e-5, atol=1e-6, err_msg=path)

    kinds = [type(e) for e in seen]
    epoch = [events.Stepped] * 4 + [events.ValidStepped] * 2 + [events.Validated, events.EpochEnded]
    assert kinds == [events.Started, *epoch, *epoch, events.Finished]
    assert [(e.epoch, e.batch, e.step, e.examples) for e in steps[3:5]] == [(1, 4, 4, 5), (2, 1, 5, 8)]
    assert steps[4].lr == pytest.approx(0.05 * 0.5 * (1 + np.cos(np.pi * 4 / 100)))
    ended = seen.of(events.EpochEnded)[0]
    assert ended.train["loss"] == pytest.approx(np.average(losses[:4], weights=[8, 8, 8, 5]))
    assert ended.tables["train.confusion"].sum() == 29 and ended.tables["valid.confusion"].sum() == 16
    assert ended.train["examples/s"] > 0 and "examples/s" not in ended.valid
    told = learner.evaluate(BATCHES[:2])
    assert dict(summary.valid) == told == {"loss": told["loss"], "accuracy": told["accuracy"]}
    learner.model.eval()
    logits = learner.model(X[:16]).numpy()
    assert told["accuracy"] == (logits.argmax(1) == Y[:16]).mean()
    assert summary.reason == "done" and summary.epochs == 2 and "accuracy" in str(summary)


def test_a_loss_function_and_a_step_of_ones_own() -> None:
    def loss(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> Any:
        scores = model(x)
        return nn.CrossEntropyLoss()(scores, y), scores, y

    whole, own = made(loss=loss), made(loss=loss)
    optimizer = own.optimizers[""]

    @burn.jit(dynamic={"x": {0: "n"}, "y": {0: "n"}})
    def step(x: burn.Tensor, y: burn.Tensor) -> Any:
        (value, outputs), gradients = burn.value_and_grad(
            lambda m: (lambda r: (r[0], r[1:]))(loss(m, x, y)), has_aux=True
        )(own.model)
        optimizer.update(gradients)
        return value, *outputs

    burn.manual_seed(0)
    own = Learner(own.model, loss, optimizer, metrics=[Accuracy()], progress=False, step=step)
    burn.manual_seed(0)
    told = own.fit([{"x": x, "y": y} for x, y in BATCHES], epochs=2)
    burn.manual_seed(0)
    assert told.train == pytest.approx(whole.fit([{"y": y, "x": x} for x, y in BATCHES], epochs=2).train, rel=1e-5)


def test_several_optimizers(tmp_path: Path) -> None:
    """Two optimizers that update parts of a model, alternating; training is stopped and resumed."""

    def paired() -> Learner:
        burn.manual_seed(0)
        model: Any = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3))
        parts = {"first": optim.SGD(model[0], lr=0.1, momentum=0.9), "second": optim.AdamW(model[1], lr=0.01)}

        @burn.jit(dynamic={"x": {0: "n"}, "y": {0: "n"}})
        def step(x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
            value, gradients = burn.value_and_grad(lambda m: nn.CrossEntropyLoss()(m(x), y))(model)
            for number, optimizer in enumerate(parts.values()):
                own = {n: gradients[f"{number}.{n}"] for n in optimizer.parameters}
                optimizer.update(own)
            return value

        return Learner(model, nn.CrossEntropyLoss(), parts, folder=tmp_path, progress=False, step=step)

    first, whole, second = paired(), paired(), paired()
    whole.folder = None
    first.observers = (at_step(5, lambda control: control.stop()),)
    first.fit(BATCHES, epochs=2)
    second.fit(BATCHES, epochs=2, resume=True)
    whole.fit(BATCHES, epochs=2)
    assert {name for name, _ in second.named_buffers()} >= {
        "optimizer.first.state.weight.velocity",
        "optimizer.second.steps",
    }
    for (name, a), (_, b) in zip(second.named_buffers(), whole.named_buffers(), strict=True):
        np.testing.assert_array_equal(a.array, b.array, err_msg=name)
    with pytest.raises(TypeMismatch, match="need a step"):
        Learner(whole.model, nn.MSELoss(), whole.optimizers)


def test_data_of_many_kinds() -> None:
    def numbered(epoch: int) -> Iterator[Any]:
        assert epoch in (1, 2)
        yield from BATCHES

    wanted = made()
    wanted.fit(BATCHES, epochs=2)
    lists = [[x.astype(float).tolist(), y.tolist()] for x, y in BATCHES]
    for data in (numbered, lambda: iter(BATCHES), lists, _torch_loader()):
        learner = made()
        learner.fit(data, epochs=2)
        assert learner.programs == 1
        assert bits(learner) == bits(wanted), data


def _torch_loader() -> Any:
    torch = pytest.importorskip("torch")
    rows = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    return torch.utils.data.DataLoader(rows, batch_size=8)


@pytest.mark.parametrize(
    ("data", "error", "told"),
    [
        ((X, Y), TypeMismatch, "batch by batch"),
        (X, TypeMismatch, "batch by batch"),
        (7, TypeMismatch, "something to iterate over"),
        (iter(BATCHES), TypeMismatch, "can be gone through once"),
        ([], TrainingError, "no batch in epoch 1"),
        ([(X[:8],)], TypeMismatch, "inputs and, last, a target"),
        ([(X[:8], ["a"] * 8)], InputError, "entry 1 is of type list and holds no tensor"),
        ([BATCHES[0], (X[:8], Y[:8] + 3)], BurnError, "epoch 1, batch 2: (.|\n)*out of range"),
        ([(X[:8], Y[:7])], BurnError, "epoch 1, batch 1: "),
        ([(X[:8, :3], Y[:8])], BurnError, "epoch 1, batch 1: in Linear"),
        (
            [(X[:8].astype(float), Y[:8])],
            TypeMismatch,
            "entry 0 of the batch is float64, the model's parameters are float32",
        ),
    ],
)
def test_data_that_does_not_fit(data: Any, error: type, told: str) -> None:
    seen = Seen()
    with pytest.raises(error, match=told):
        made(observers=[seen]).fit(data, epochs=2)
    assert not seen or seen[-1].summary.reason == "failed"


def test_what_makes_no_learner() -> None:
    with pytest.raises(TypeMismatch) as caught:
        made(
            metrics=[Accuracy(), Accuracy, Throughput("loss")], keep=Keep(best="acuracy"), step=lambda: 0, clip_norm=1.0
        )
    text = str(caught.value)
    for part in ("is no metric", "two metrics are called 'loss'", "did you mean 'accuracy'", "clip_norm: the affair"):
        assert part in text
    with pytest.raises(TypeMismatch, match=r"write CrossEntropyLoss\(\)"):
        made(loss=nn.CrossEntropyLoss)
    with pytest.raises(TypeMismatch, match="gives the loss alone"):
        made(loss=lambda m, x, y: nn.CrossEntropyLoss()(m(x), y)).fit(BATCHES, epochs=1)
    with pytest.raises(TypeMismatch, match=r"a layer such as nn\.MSELoss"):
        made(loss=lambda prediction, target: 0).fit(BATCHES, epochs=1)
    with pytest.raises(TypeMismatch, match="did you mean 'accuracy'"):
        made(observers=[EarlyStopping("acuracy")]).fit(BATCHES, epochs=1)


def test_batches_of_too_many_shapes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "PROGRAMS", 3)
    seen = Seen()
    learner = made(loss=lambda m, x, y: (x * m.head.bias[0]).mean(), metrics=[], observers=[seen])
    learner.fit([(X[:8, : i % 4 + 1], np.zeros(8)) for i in range(4)], epochs=1)
    assert [e.step for e in seen.of(events.Warned)] == [3]


def test_batches_in_parts_and_in_half_precision(tmp_path: Path) -> None:
    options: dict[str, Any] = {"metrics": [Accuracy(), AUROC(), R2Of()], "accumulate": 2, "precision": "float16"}
    even = [(x[:4], y[:4]) for x, y in BATCHES]
    learner = made(folder=tmp_path, **options)
    inner: Any = learner.model
    inner.drop.p = 0.0
    scores = inner.eval()(np.concatenate([x for x, _ in even])).numpy()
    truth = np.concatenate([y for _, y in even])
    learner.optimizers[""].lr = 0.0
    inner.train()
    told = learner.fit(even, epochs=1)
    assert told.train["accuracy"] == pytest.approx(
        (scores.argmax(1) == truth).mean(), abs=0.07
    )  # of rounded parameters
    one_hot = np.eye(3)[truth]
    want = 1 - ((scores - one_hot) ** 2).sum() / ((one_hot - 1 / 3) ** 2).sum()
    assert told.train["of scores"] == pytest.approx(want, rel=1e-2) and 0 <= told.train["auroc"] <= 1
    names = checkpoints.read(checkpoints.path_of(tmp_path, 4)).tensors
    assert names["step.good"].array() == 4
    other = made(folder=tmp_path, **options)
    again: Any = other.model
    again.drop.p = 0.0
    other.fit(even, epochs=2, resume=True)
    assert dict(other.named_buffers())["step.good"].array == 8
    with pytest.raises(ModelError, match="another step"):
        made(folder=tmp_path, metrics=options["metrics"]).fit(even, epochs=3, resume=True)


class R2Of(R2):
    """Of scores, whose means and spreads are no plain sums."""

    def __init__(self) -> None:
        super().__init__("of scores")

    def counts(self, prediction: Any, target: Any) -> Any:
        return super().counts(prediction, burn.one_hot(target, 3))


# ---- stopping ----------------------------------------------------------------------------------------------------------
def test_stopping_early_and_a_plateau() -> None:
    learner = made(lr=0.0)
    plateau = optim.Plateau(learner.optimizers[""], patience=0, factor=0.5)
    learner.optimizers[""].lr = 1e-9
    learner.observers = (EarlyStopping("train.accuracy", patience=2), Feed(plateau))
    summary = learner.fit(BATCHES, BATCHES, epochs=9)
    assert summary.epochs == 3 and "not become better for 2 epochs" in summary.reason
    assert learner.optimizers[""].lr == pytest.approx(1e-9 / 4)
    learner.observers = (EarlyStopping(target=100.0),)
    assert learner.fit(BATCHES, epochs=9).reason.startswith("loss has reached")
    learner.observers = (Feed(plateau, "accuracy"),)
    with pytest.raises(TypeMismatch, match="wrong thing"):
        learner.fit(BATCHES, epochs=1)


@pytest.mark.parametrize("how", ["control", "SIGINT", "SIGTERM"])
def test_stopped_and_resumed(how: str, tmp_path: Path) -> None:
    def stop(control: events.Control) -> None:
        control.stop("enough") if how == "control" else os.kill(os.getpid(), getattr(signal, how))

    reason = {"control": "enough", "SIGINT": "interrupted", "SIGTERM": "terminated"}[how]
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    seen = Seen()
    first = made(folder=tmp_path, observers=[seen, at_step(6, stop)])
    summary = first.fit(BATCHES, BATCHES, epochs=3)
    assert (summary.reason, summary.steps, summary.epochs) == (reason, 6, 1)
    assert [e.reason for e in seen.of(events.Stopped)] == [reason]
    assert [(e.step, e.why) for e in seen.of(events.Saved)] == [(4, "epoch 1"), (6, reason)]
    assert handlers == [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]

    second = made(seed=9, folder=tmp_path)
    told = second.fit(BATCHES, BATCHES, epochs=3, resume=True)
    whole = made()
    assert told.history == whole.fit(BATCHES, BATCHES, epochs=3).history
    assert bits(second) == bits(whole)


@pytest.mark.parametrize("kind", ["list", "loader"])
def test_stopped_in_validation_and_resumed(kind: str, tmp_path: Path) -> None:
    def stop(event: events.Event, control: events.Control) -> None:
        if isinstance(event, events.ValidStepped) and event.batch == 2:
            control.stop()

    def batches() -> Any:
        return BATCHES if kind == "list" else Loader((X, Y), 8, shuffle=True, seed=3)

    def held_out() -> Any:  # whose last bits depend on the order
        return BATCHES if kind == "list" else Loader((X, Y), 8, shuffle=True, seed=4)

    summary = made(folder=tmp_path, observers=[stop]).fit(batches(), held_out(), epochs=2)
    assert (summary.steps, summary.epochs) == (4, 0)
    seen = Seen()
    second = made(seed=9, folder=tmp_path, observers=[seen])
    told = second.fit(batches(), held_out(), epochs=2, resume=True)
    assert [type(e) for e in seen[1:3]] == [events.ValidStepped] * 2
    whole = made()
    assert told.history == whole.fit(batches(), held_out(), epochs=2).history
    assert bits(second) == bits(whole)


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    def twice(control: events.Control) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    seen = Seen()
    with pytest.raises(KeyboardInterrupt):
        made(folder=tmp_path, observers=[seen, at_step(2, twice)]).fit(BATCHES, epochs=3)
    assert isinstance(seen[-1], events.Finished) and not checkpoints.found(tmp_path)


# ---- checkpoints -------------------------------------------------------------------------------------------------------
def test_which_checkpoints_stay(tmp_path: Path) -> None:
    worse = iter([3, 1, 2, 4, 5, 6])

    class Given(Metric):
        name, better = "given", "min"

        def counts(self, prediction: Any, target: Any) -> Any:
            return {"n": prediction.sum() * 0}

        def value(self, totals: Any) -> float:
            return next(worse)

        of_batch = False

    learner = made(metrics=[Given()], folder=tmp_path, keep=Keep(last=2, best=["given"]))
    summary = learner.fit(BATCHES[:1], epochs=5)
    assert list(checkpoints.found(tmp_path)) == [2, 4, 5]
    assert summary.best["given"] == (1, 2) and summary.checkpoint == checkpoints.path_of(tmp_path, 5)
    before = learner.model.state_dict()["head.bias"].copy()
    learner.load(checkpoints.path_of(tmp_path, 2))
    assert not np.array_equal(before, learner.model.state_dict()["head.bias"])


def test_parameters_stay_in_place_while_they_are_saved(tmp_path: Path) -> None:
    offsets: list[list[int]] = []
    learner = made(folder=tmp_path, keep=Keep(every=1))

    def look(event: events.Event, control: events.Control) -> None:
        if isinstance(event, events.Stepped):
            tensors = [p for _, p in learner.model.named_parameters()] + [b for _, b in learner.named_buffers()]
            offsets.append([np.asarray(t.elements).ctypes.data for t in tensors])

    learner.observers = (look,)
    learner.fit(BATCHES, BATCHES, epochs=3)
    assert all(p == offsets[1] for p in offsets[1:])


def test_a_folder_that_has_a_training(tmp_path: Path) -> None:
    made(folder=tmp_path).fit(BATCHES, epochs=1)
    (tmp_path / "checkpoints" / ".step-00000009.safetensors.x.tmp").write_bytes(b"half")
    with pytest.raises(ModelError, match="resume=True goes on"):
        made(folder=tmp_path).fit(BATCHES, epochs=1)
    summary = made(folder=tmp_path).fit(BATCHES[:1], epochs=1, overwrite=True)
    assert summary.steps == 1
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-00000001.safetensors"]
    with pytest.raises(ModelError, match="no folder"):
        made().fit(BATCHES, epochs=1, resume=True)


def test_a_folder_is_one_trainings_at_a_time(tmp_path: Path) -> None:
    def second(event: events.Event, control: events.Control) -> None:
        if isinstance(event, events.EpochEnded):
            with pytest.raises(ModelError, match="another training uses"):
                made(folder=tmp_path).fit(BATCHES, epochs=1, resume=True)

    assert made(folder=tmp_path, observers=[second]).fit(BATCHES, epochs=1).steps == 4
    made(folder=tmp_path).fit(BATCHES, epochs=2, resume=True)


def test_checkpoints_of_something_else(tmp_path: Path) -> None:
    made(folder=tmp_path).fit(BATCHES, epochs=1)
    path = checkpoints.path_of(tmp_path, 4)
    burn.manual_seed(0)
    other = nn.Sequential(nn.Linear(4, 9), nn.Linear(9, 3))
    learner = Learner(other, nn.CrossEntropyLoss(), optim.AdamW(other), progress=False)
    before = bits(learner)
    with pytest.raises(ModelError) as caught:
        learner.fit(BATCHES, epochs=2, resume=path)
    assert "0.weight" in str(caught.value) and "first.weight" in str(caught.value)
    model = Net()
    moving = Learner(model, nn.CrossEntropyLoss(), optim.SGD(model, momentum=0.9), progress=False)
    kept = bits(moving)
    with pytest.raises(ModelError, match="another optimizer"):
        moving.fit(BATCHES, epochs=2, resume=path)
    with pytest.raises(ModelError, match="other observers"):
        made(observers=[EarlyStopping()]).fit(BATCHES, epochs=2, resume=path)
    assert bits(learner) == before and bits(moving) == kept
    with pytest.raises(InputError, match="not the data"):
        _mid_epoch(tmp_path / "mid")
        with pytest.raises(ModelError, match="other metrics"):
            made(folder=tmp_path / "mid", metrics=[]).fit(BATCHES, epochs=3, resume=True)
        made(folder=tmp_path / "mid").fit(BATCHES[:1], epochs=3, resume=True)


def _mid_epoch(folder: Path) -> None:
    made(folder=folder, observers=[at_step(3, lambda control: control.stop())]).fit(BATCHES, epochs=3)


def test_spoiled_checkpoints(tmp_path: Path) -> None:
    made(folder=tmp_path).fit(BATCHES, epochs=1)
    path = checkpoints.newest(tmp_path)
    assert path is not None
    whole = path.read_bytes()
    for part in (whole[: len(whole) // 2], whole[:-9], b""):
        path.write_bytes(part)
        with pytest.raises(ModelError):
            made(folder=tmp_path).fit(BATCHES, epochs=2, resume=True)
    facts = {"format": 1, "epoch": 2, "batch": 0, "step": 4, "trained": False}
    learner = made()
    tensors = {f"model.{n}": checkpoints.weight(a) for n, a in learner.model.state_dict().items()}
    tensors |= {f"optimizer.{n}": checkpoints.weight(a) for n, a in learner.optimizers[""].state_dict().items()}
    complete = {
        **facts,
        "history": [],
        "ends": [],
        "random": [1, 1],
        "others": {},
        "data": None,
        "valid": None,
        "observers": [],
    }
    for wrong in (
        facts,
        {**complete, "random": [-1, 2]},
        {**complete, "history": 7},
        {**complete, "others": {"python": 1}},
    ):
        checkpoints.write(path, tensors, wrong)
        with pytest.raises(ModelError):
            learner.fit(BATCHES, epochs=2, resume=path)
    nn.Linear(2, 2).save(tmp_path / "weights.safetensors")
    with pytest.raises(ModelError, match="no checkpoint of a training"):
        learner.fit(BATCHES, epochs=2, resume=tmp_path / "weights.safetensors")


def test_damaged_checkpoints_are_not_resumed_from(tmp_path: Path) -> None:
    """Bits that flipped and pages that a power cut left empty: by the checksum, wherever they are; the one before is taken."""
    made(folder=tmp_path).fit(BATCHES, epochs=2)
    path, before = checkpoints.path_of(tmp_path, 8), checkpoints.path_of(tmp_path, 4)
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    draw = np.random.default_rng(0)
    offsets = [*draw.integers(0, header, 40), *draw.integers(header, len(whole), 20)]
    for offset in offsets:  # of padding between header and tensors nothing depends
        flipped = bytearray(whole)
        flipped[offset] ^= 1 << int(draw.integers(8))
        if whole[offset : offset + 1] == b" " and not whole[offset:header].strip():
            continue
        path.write_bytes(flipped)
        with pytest.raises(ModelError):
            checkpoints.read(path)
    path.write_bytes(whole[:header] + bytes(len(whole) - header))
    with pytest.raises(checkpoints.DamagedCheckpoint, match=r"is damaged\n.*the checksums of 'm(.|\n)*more"):
        made(folder=tmp_path).fit(BATCHES, epochs=3, resume=path)
    seen = Seen()
    resumed = made(folder=tmp_path, observers=[seen])
    assert resumed.fit(BATCHES, epochs=3, resume=True).steps == 12
    assert "step-00000008.safetensors is damaged" in seen.of(events.Warned)[0].text
    uninterrupted = made()
    uninterrupted.fit(BATCHES, epochs=3)
    assert bits(resumed) == bits(uninterrupted)
    for left in checkpoints.found(tmp_path).values():
        left.write_bytes(left.read_bytes()[:-100])
    with pytest.raises(checkpoints.DamagedCheckpoint, match="all previous checkpoints are damaged"):
        made(folder=tmp_path).fit(BATCHES, epochs=4, resume=True)
    assert not before.exists() or before.stat().st_size


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    learner = made(folder=tmp_path, observers=[at_step(4, lambda _: limit(len(content) // 2))])
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    learner.fit(BATCHES[:2], epochs=1)
    first = checkpoints.newest(tmp_path)
    assert first is not None
    content = first.read_bytes()
    try:
        with pytest.raises(ModelError, match=r"cannot write (.|\n)*step-00000002"):
            learner.fit(BATCHES[:2], epochs=3, resume=True)
    finally:
        limit(hard)
    assert [p.name for p in first.parent.iterdir()] == [first.name] and first.read_bytes() == content
    learner.observers = ()
    assert learner.fit(BATCHES[:2], epochs=3, resume=True).steps == 6


def test_what_cannot_be_written(tmp_path: Path) -> None:
    class Remembers:
        def __call__(self, event: events.Event, control: events.Control) -> None: ...

        def state_dict(self) -> Any:
            return {"array": X}

        load_state_dict = print

    with pytest.raises(ModelError, match="no plain value"):
        made(folder=tmp_path, observers=[Remembers()]).fit(BATCHES, epochs=1)
    assert not checkpoints.found(tmp_path)


# ---- NaN ---------------------------------------------------------------------------------------------------------------
def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    spoiled = [*BATCHES[:2], (X[:8] * np.float32(np.nan), Y[:8])]
    with pytest.raises(TrainingError) as caught:
        made(folder=tmp_path, keep=Keep(every=1)).fit(spoiled, epochs=2)
    text = str(caught.value)
    assert "loss of step 3 (epoch 1, batch 3) is nan" in text and "entry 0 of the batch" in text
    assert "step-00000002" in text and list(checkpoints.found(tmp_path)) == [1, 2]
    assert all(
        np.isfinite(w.array()).all() for w in checkpoints.read(checkpoints.path_of(tmp_path, 2)).tensors.values()
    )


def test_spoiled_parameters_are_not_saved(tmp_path: Path) -> None:
    learner = made(folder=tmp_path)
    model: Any = learner.model
    learner.observers = (at_step(8, lambda _: model.head.bias.assign(np.full(3, np.inf, np.float32))),)
    with pytest.raises(TrainingError, match=r"step 8 has spoiled parameters\n  - 'head.bias'"):
        learner.fit(BATCHES, epochs=3)
    assert list(checkpoints.found(tmp_path)) == [4]


def test_a_summary_of_nothing() -> None:
    assert "failed" in str(Summary("run", 0, 0, 0.1, "failed", {}, {}, {}))
