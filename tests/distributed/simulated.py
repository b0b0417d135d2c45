"""Cases on simulated devices, in a process of their own: `python -m tests.distributed.simulated COUNT CASE ...`

Each case trains on a mesh and on one CPU with burn's own kernels, and asserts that losses and parameters agree. It writes what
it found as a line of JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import burn
from burn import data, nn, optim
from burn.train import metrics

CASES: dict[str, Callable[[], dict[str, Any]]] = {}


def case(function: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    CASES[function.__name__] = function
    return function


class Net(nn.Module):
    """Batch statistics, dropout and an embedding."""

    def __init__(self) -> None:
        self.embed, self.a, self.norm = nn.Embedding(12, 8), nn.Linear(8, 16), nn.BatchNorm1d(16)
        self.drop, self.b = nn.Dropout(0.3), nn.Linear(16, 4)

    def forward(self, x: burn.Tensor, words: burn.Tensor) -> burn.Tensor:
        return self.b(self.drop(burn.relu(self.norm(self.a(x + self.embed(words))))))


class Attending(nn.Module):
    def __init__(self) -> None:
        self.embed, self.body = nn.Embedding(12, 8), nn.TransformerEncoderLayer(8, 4, 16, dropout=0.1)
        self.head = nn.Linear(8, 4)

    def forward(self, x: burn.Tensor, words: burn.Tensor) -> burn.Tensor:
        return self.head(self.body((self.embed(words) + x).reshape(x.shape[0], 1, 8)).squeeze(1))


def loss(model: nn.Module, x: burn.Tensor, words: burn.Tensor, y: burn.Tensor) -> Any:
    scores = model(x, words)
    return nn.CrossEntropyLoss()(scores, y), scores


def batches(count: int = 4, rows: int = 16) -> list[tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(0)
    return [
        (rng.standard_normal((rows, 8)).astype("f4"), rng.integers(0, 12, rows), rng.integers(0, 4, rows))
        for _ in range(count)
    ]


def trained(make: Callable[[], nn.Module], mesh: burn.Mesh | None, **options: Any) -> Any:
    burn.manual_seed(3)
    model = make()
    optimizer = optim.SGD(model, lr=0.1, momentum=0.9) if options.pop("sgd", False) else optim.AdamW(model, lr=0.01)
    step = burn.train.step(model, loss, optimizer, has_aux=True, clip_norm=1.0, mesh=mesh, **options)
    results = [step(*batch) for batch in batches()]
    return step, [float(value) for value, _ in results], [np.asarray(scores) for _, scores in results]


def compared(make: Callable[[], nn.Module], mesh: burn.Mesh, **options: Any) -> dict[str, Any]:
    return against_one_device(make, mesh, **options)[1]


def against_one_device(make: Callable[[], nn.Module], mesh: burn.Mesh, **options: Any) -> tuple[Any, dict[str, Any]]:
    """The step, and what was found."""
    reference, wanted, theirs = trained(make, None, **options)
    step, losses, scores = trained(make, mesh, **options)
    np.testing.assert_allclose(losses, wanted, rtol=0, atol=1e-5)
    assert losses[0] != losses[-1]
    for ours, other in zip(scores, theirs, strict=True):  # the masks of dropout are the same
        np.testing.assert_allclose(ours, other, rtol=1e-3, atol=1e-4)
    optimizers = step.optimizer.named_buffers(), reference.optimizer.named_buffers()
    pairs = [(n, p, dict(reference.model.named_parameters())[n]) for n, p in step.model.named_parameters()]
    pairs += [(n, p, optimizers[1][n]) for n, p in optimizers[0].items()]
    noisy = ("a.bias", "key.bias", "running_mean")  # gradients of rounding errors, which Adam scales up
    for name, ours, other in pairs:
        if not any(part in name for part in noisy):
            np.testing.assert_allclose(ours.numpy(), other.numpy(), rtol=1e-3, atol=2e-5, err_msg=name)
        assert ours.on_mesh is not None, name
    told = step.communication()
    layouts = {name: str(p.on_mesh.layout) for name, p, _ in pairs if not p.on_mesh.layout.is_replicated}
    return step, {"apart": float(np.abs(np.array(losses) - wanted).max()), "bytes": told.bytes, "layouts": layouts}


TENSOR = [("embed", (None, "model")), ("a.weight|a.bias|norm", ("model",)), ("b.weight", (None, "model"))]
HEADS = [("query|key|value", ("model",)), ("output.weight|outer.weight", (None, "model")), ("inner", ("model",))]


@case
def mixed() -> dict[str, Any]:
    """Tensor parallel by rules, and fully sharded along the other axis."""
    mesh = burn.Mesh({"data": 2, "model": 2}, rules=TENSOR, fully_sharded="data")
    step, found = against_one_device(Net, mesh)
    assert (
        found["layouts"]["a.weight"] == "[model, data]"
        and found["layouts"]["state.b.weight.average"] == "[data, model]"
    )
    assert found["bytes"]["all-reduce"] and found["bytes"]["all-gather"]
    return found | refused(step)


def refused(step: burn.train.Step) -> dict[str, Any]:
    """Errors leave parameters as they are."""
    before = {name: p.numpy().copy() for name, p in step.model.named_parameters()}
    x, words, y = batches()[0]
    try:
        step(x, np.where(words == words[3], 99, words), y)
        raise AssertionError("an index out of range is no error")
    except burn.RunError as error:
        assert isinstance(error, IndexError) and "simulated.py" in str(error), error
    for name, p in step.model.named_parameters():
        if "running" not in name:
            np.testing.assert_array_equal(p.numpy(), before[name], err_msg=name)
    try:
        step(x[:15], words[:15], y[:15])
        raise AssertionError("a batch of 15 rows is no error")
    except burn.InputError as error:
        text = str(error)
    assert "the batch does not fit the mesh (simulated.py:" in text and "2 devices of mesh axis 'data'" in text, text
    assert "14 or 16 rows do" in text
    return {"refused": text}


@case
def data_parallel() -> dict[str, Any]:
    found = compared(Net, burn.Mesh({"data": 4}))
    assert not found["layouts"] and found["bytes"]["all-reduce"]
    return found


@case
def fully_sharded() -> dict[str, Any]:
    found = compared(Net, burn.Mesh({"data": 4}, fully_sharded="data"))
    assert {"a.weight", "state.a.weight.average", "norm.weight"} <= found["layouts"].keys()
    return found


@case
def sharded_state() -> dict[str, Any]:
    found = compared(Net, burn.Mesh({"data": 4}, sharded_state="data"))
    assert "a.weight" not in found["layouts"] and "state.a.weight.average" in found["layouts"]
    return found


@case
def attention() -> dict[str, Any]:
    return compared(Attending, burn.Mesh({"data": 2, "model": 2}, rules=HEADS), sgd=True)


@case
def accumulated() -> dict[str, Any]:
    make = lambda: nn.Sequential(nn.Linear(8, 8))  # noqa: E731
    burn.manual_seed(1)
    values = []
    for mesh in (None, burn.Mesh({"data": 4}, fully_sharded="data")):
        burn.manual_seed(1)
        model = make()
        step = burn.train.step(
            model, lambda m, x, y: nn.CrossEntropyLoss()(m(x), y), optim.SGD(model, lr=0.1), accumulate=2, mesh=mesh
        )
        values.append([float(step(x, y)) for x, _, y in batches()])
    np.testing.assert_allclose(values[0], values[1], atol=1e-5)
    return {"apart": float(np.abs(np.array(values[0]) - values[1]).max())}


@case
def half_precision() -> dict[str, Any]:
    mesh = burn.Mesh({"data": 4}, fully_sharded="data")
    found = {}
    for precision in ("bfloat16", "float16"):
        values = []
        for where in (None, mesh):
            burn.manual_seed(2)
            model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
            cross = lambda m, x, y: nn.CrossEntropyLoss()(m(x), y)  # noqa: E731
            step = burn.train.step(model, cross, optim.SGD(model, lr=0.1), precision=precision, mesh=where)
            values.append([float(step(x, y)) for x, _, y in batches()])
        np.testing.assert_allclose(values[0], values[1], atol=4e-3)
        found[precision] = float(np.abs(np.array(values[0]) - values[1]).max())
    return found


def learner(folder: Path, mesh: burn.Mesh | None) -> burn.train.Learner:
    burn.manual_seed(5)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 4))
    return burn.train.Learner(
        model,
        nn.CrossEntropyLoss(),
        optim.AdamW(model, lr=0.01),
        metrics=[metrics.Accuracy()],
        folder=folder,
        progress=False,
        mesh=mesh,
    )


@case
def learning() -> dict[str, Any]:
    """A Learner on a mesh, resumed on another one and on one device."""
    x, _, y = batches(1, 44)[0]
    folder = Path(tempfile.mkdtemp())
    meshes = {
        "one": [None, None, None],
        "many": [burn.Mesh({"data": 4}, fully_sharded="data"), burn.Mesh({"data": 2}, sharded_state="data"), None],
    }
    histories = {}
    for name, stages in meshes.items():
        for epochs, mesh in enumerate(stages, 1):
            made = learner(folder / name, mesh)
            train = data.Loader((x, y), 8, shuffle=True, seed=1, drop_last=True)
            summary = made.fit(train, data.Loader((x, y), 8), epochs=epochs, resume=True)
        histories[name] = [row["train"]["loss"] for row in summary.history] + [summary.valid["loss"]]
        histories[name + " accuracy"] = [row["valid"]["accuracy"] for row in summary.history]
    np.testing.assert_allclose(histories["one"], histories["many"], atol=1e-5)
    assert histories["one accuracy"] == histories["many accuracy"]
    return histories


@case
def hosts() -> dict[str, Any]:
    """A mesh of 64 hosts is compiled and priced, and nothing runs."""
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))
    cross = lambda m, x, y: nn.CrossEntropyLoss()(m(x), y)  # noqa: E731
    count = sum(p.count for p in model.parameters())
    found: dict[str, Any] = {}
    for name, mesh in {
        "data parallel": burn.Mesh({"host": 64}),
        "fully sharded": burn.Mesh({"host": 64}, fully_sharded="host"),
    }.items():
        step = burn.train.step(model, cross, optim.AdamW(model, lr=1e-3), mesh=mesh)
        told = step.communication("float32[1024, 256]", "int64[1024]")
        found[name] = {"bytes": told.bytes, "sent": told.sent, "arguments": told.arguments, "text": str(told)}
        assert told.along("host") == told.sent and "host=64" in str(told)
        assert all(p.on_mesh is None for p in model.parameters())
    assert found["data parallel"]["bytes"]["all-reduce"] >= 4 * count
    assert found["data parallel"]["arguments"] >= 12 * count > 16 * found["fully sharded"]["arguments"]
    assert found["fully sharded"]["bytes"]["all-gather"] >= 4 * 2 * 256 * 512
    return found


def drawn(seed: int, devices: int) -> dict[str, Any]:
    """A random model on a random mesh with random rules."""
    rng = np.random.default_rng(seed)
    width = int(rng.choice([4, 6, 8, 12]))
    layers: list[nn.Module] = [nn.Linear(8, width)]
    for _ in range(int(rng.integers(1, 4))):
        kinds: list[Callable[[], nn.Module]] = [
            lambda: nn.Linear(width, width, bias=bool(rng.integers(2))),
            lambda: nn.LayerNorm(width),
            lambda: nn.BatchNorm1d(width),
            lambda: nn.Dropout(0.3),
            nn.GELU,
            nn.Tanh,
        ]
        layers.append(kinds[rng.integers(len(kinds))]())
    burn.manual_seed(seed)
    model = nn.Sequential(*layers, nn.Linear(width, 4))
    start = model.state_dict()
    split = int(rng.choice([n for n in (1, 2, 4, 8) if devices % n == 0]))
    axes = {"data": split, "model": devices // split}
    if rng.integers(4) == 0:
        axes = dict(reversed(axes.items()))
    rules = []
    for path, p in model.named_parameters():
        free = [name for name in axes if rng.integers(3) == 0]
        layout: list[Any] = [None] * p.ndim
        for name in free:
            axis = int(rng.integers(p.ndim))
            if layout[axis] is None and p.shape[axis] % axes[name] == 0:
                layout[axis] = name
        if any(layout):
            rules.append((f"^{path.replace('.', '[.]')}$", tuple(layout)))
    sharded = [None, "data", "model", ("data", "model")]
    options = {"fully_sharded": sharded[rng.integers(4)], "sharded_state": sharded[rng.integers(4)], "rules": rules}
    mesh = burn.Mesh(axes, batch=("data", "model") if rng.integers(4) == 0 else "data", **options)
    make = [
        lambda m: optim.SGD(m, lr=0.1, momentum=0.9),
        lambda m: optim.Lion(m, lr=0.01),
        lambda m: optim.Adam(m, lr=0.01),
    ]
    optimizer = make[rng.integers(3)]
    values = []
    for where in (None, mesh):
        model.load_state_dict(start)
        burn.manual_seed(seed)
        cross = lambda m, x, y: nn.CrossEntropyLoss()(m(x), y)  # noqa: E731
        step = burn.train.step(model, cross, optimizer(model), clip_norm=1.0, mesh=where)
        values.append([float(step(x, y)) for x, _, y in batches(3)])
    # one step apart: the first loss is of equal parameters; Adam and Lion scale up rounding errors of gradients that are zero
    np.testing.assert_allclose(values[1], values[0], rtol=0, atol=2e-5, err_msg=f"seed {seed}: {mesh} {model}")
    return {"seed": seed, "apart": float(np.abs(np.subtract(*values)).max()), "mesh": repr(mesh)}


@case
def sweep() -> dict[str, Any]:
    """BURN_SWEEP models (8), from BURN_SWEEP_SEED on."""
    import jax

    count, seed = int(os.environ.get("BURN_SWEEP") or 8), int(os.environ.get("BURN_SWEEP_SEED") or 0)
    found = []
    for number in range(seed, seed + count):
        found.append(drawn(number, jax.device_count()))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return {"count": count, "apart": max(one["apart"] for one in found)}


if __name__ == "__main__":
    burn.distributed.simulate(int(sys.argv[1]))
    for name in sys.argv[2:]:
        print(json.dumps({"case": name, **CASES[name]()}), flush=True)
