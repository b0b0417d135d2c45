"""Changes of a model after its step was compiled: the step and the optimizer follow them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import ModelError, TypeMismatch
from burn.nn.parameter import Parameter
from burn.train import Learner, checkpoints, states
from burn.train.events import EpochEnded

torch = pytest.importorskip("torch")

rng = np.random.default_rng(0)
X = rng.standard_normal((8, 4)).astype(np.float32)
Y = X[:, :3].argmax(1)


def model_of() -> Any:
    burn.manual_seed(0)
    return nn.Sequential(a=nn.Linear(4, 5), act=nn.Tanh(), b=nn.Linear(5, 3))


def loss(model: Any, x: Any, y: Any) -> Any:
    return nn.CrossEntropyLoss()(model(x), y)


OPTIMIZERS = {
    "SGD": ({"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}, "SGD"),
    "AdamW": ({"lr": 0.1, "weight_decay": 0.1}, "AdamW"),
    "Adam": ({"lr": 0.1, "amsgrad": True}, "Adam"),
    "RMSProp": ({"lr": 0.01, "momentum": 0.9, "centered": True}, "RMSprop"),
    "AdaGrad": ({"lr": 0.1, "lr_decay": 0.1}, "Adagrad"),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_freezing_and_unfreezing_is_torchs(name: str) -> None:
    """Two steps each: all, a frozen, a unfrozen, and of two optimizers, b's bias frozen. State stays while a parameter is frozen,
    and a bias correction counts the steps of its parameter. Which parameters are frozen does not depend on the optimizer."""
    options, theirs = OPTIMIZERS[name]
    model = model_of()
    step = burn.train.step(model, loss, getattr(optim, name)(model, **options))
    twin = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()
    pairs = [(model.a.weight, twin[0].weight), (model.a.bias, twin[0].bias)]
    pairs += [(model.b.weight, twin[2].weight), (model.b.bias, twin[2].bias)]
    with torch.no_grad():
        for p, t in pairs:
            t.copy_(torch.tensor(p.numpy(), dtype=torch.float64))
    optimizer = getattr(torch.optim, theirs)(twin.parameters(), **options)
    for frozen in ((), ("^a",), (), ("^b.bias",), ("^a", "^b.weight"))[: 5 if name in ("SGD", "Adam") else 3]:
        model.unfreeze()
        for pattern in frozen:
            model.freeze(pattern)
        for path, t in zip(("a.weight", "a.bias", "b.weight", "b.bias"), twin.parameters(), strict=True):
            t.requires_grad_(not any(re.search(pattern, path) for pattern in frozen))
        for _ in range(2):
            step(X, Y)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(twin(torch.tensor(X).double()), torch.tensor(Y)).backward()
            optimizer.step()
    for p, t in pairs:
        np.testing.assert_allclose(p.numpy(), t.detach().numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("how", ["step", "jit", "eager", "learner"])
def test_a_frozen_parameter_stays_and_one_that_is_unfrozen_moves(how: str) -> None:
    model = model_of()
    model.freeze("^b")
    optimizer = optim.AdamW(model, lr=0.1)

    def own(x: Any, y: Any) -> Any:
        value, gradients = burn.value_and_grad(loss)(model, x, y)
        optimizer.update(gradients)
        return value

    if how == "learner":
        learner = Learner(model, nn.CrossEntropyLoss(), optimizer, progress=False)
        act: Any = lambda: learner.fit([(X, Y)], epochs=1)  # noqa: E731
    else:
        made = {"step": burn.train.step(model, loss, optimizer), "jit": burn.jit(own), "eager": own}[how]
        act = lambda: made(burn.tensor(X), burn.tensor(Y))  # noqa: E731
    for moving in ("a", "b", "ab", ""):
        model.freeze()
        for name in moving:
            model.unfreeze(f"^{name}")
        before = model.state_dict()
        if not moving and how == "learner":
            continue
        act()
        after = model.state_dict()
        assert {path[0] for path in before if not np.array_equal(before[path], after[path])} == set(moving)


def test_state_is_added_and_dropped() -> None:
    model = model_of()
    model.freeze("^a")
    optimizer = optim.AdamW(model, lr=0.1, groups=[("bias", {"weight_decay": 0.0}), ("^a", {"lr": 0.01})])
    assert optimizer.state.keys() == {"b.weight", "b.bias"}
    step = burn.train.step(model, loss, optimizer)
    step(X, Y)
    model.unfreeze("a.weight")
    step(X, Y)
    assert optimizer.state.keys() == {"b.weight", "b.bias", "a.weight"}
    names = optimizer.state_dict()
    assert names["count.a.weight"] == 1 and names["steps"] == 2 and optimizer._group["a.weight"].options["lr"] == 0.01
    other = model_of()
    other.freeze("a.bias")
    another = optim.AdamW(other, lr=0.1, groups=[("bias", {"weight_decay": 0.0}), ("^a", {"lr": 0.01})])
    another.load_state_dict(names)
    assert {k: v.tolist() for k, v in another.state_dict().items()} == {k: v.tolist() for k, v in names.items()}
    model.b = nn.Linear(5, 3)  # another layer
    before = model.b.weight.numpy().copy()
    step(X, Y)
    assert not np.array_equal(before, model.b.weight.numpy())
    assert optimizer.state_dict()["count.b.weight"] == 1


def test_an_optimizer_of_its_own_keeps_its_parameters() -> None:
    """Two optimizers share a model by the parameters that are frozen when they are made."""
    model = model_of()
    model.freeze("bias")
    matrices = optim.Muon(model, lr=0.1)
    model.unfreeze("bias").freeze("weight")
    others = optim.SGD(model, lr=0.1)
    model.unfreeze()
    assert set(matrices.parameters) == {"a.weight", "b.weight"} and set(others.parameters) == {"a.bias", "b.bias"}
    del others
    with pytest.raises(TypeMismatch, match="Muon moves matrices"):
        _ = matrices.parameters


def test_an_optimizer_of_a_part_of_the_model() -> None:
    """Its paths are the part's, the gradients' the model's."""
    model = model_of()
    step = burn.train.step(model, loss, optim.SGD(model.b, lr=0.1))
    before = model.state_dict()
    step(X, Y)
    after = model.state_dict()
    assert {path for path in before if not np.array_equal(before[path], after[path])} == {"b.weight", "b.bias"}


def test_lbfgs_begins_anew_with_other_parameters() -> None:
    model = model_of()
    step = burn.train.step(model, loss, optim.LBFGS(model, max_iter=3))
    step(X, Y)
    model.freeze("^a")
    before = model.state_dict()
    first = float(step(X, Y))
    assert np.array_equal(model.a.weight.numpy(), before["a.weight"]) and float(step(X, Y)) < first


def test_what_is_frozen_is_part_of_a_checkpoint(tmp_path: Path) -> None:
    """An observer unfreezes after the first epoch; a training that is resumed goes on so."""

    def made(folder: Path | None) -> Learner:
        model = model_of()
        model.freeze("^a")

        def thaw(event: Any, control: Any) -> None:
            if isinstance(event, EpochEnded) and event.epoch == 1:
                model.unfreeze()

        return Learner(
            model, nn.CrossEntropyLoss(), optim.AdamW(model, lr=0.1), folder=folder, progress=False, observers=[thaw]
        )

    made(tmp_path).fit([(X, Y)], epochs=2)
    resumed, whole = made(tmp_path), made(None)
    resumed.fit([(X, Y)], epochs=4, resume=True)
    whole.fit([(X, Y)], epochs=4)
    for path, array in whole.model.state_dict().items():
        np.testing.assert_array_equal(resumed.model.state_dict()[path], array, err_msg=path)


# ---- all else in modules ---------------------------------------------------------------------------------------------------
class Looks(nn.Module):
    """Computes by attributes of many kinds."""

    def __init__(self) -> None:
        self.layer, self.other = nn.Linear(2, 2), nn.Linear(2, 2)
        self.number, self.flag, self.name = 1.0, True, "a"
        self.array = np.ones(2, np.float32)
        self.items, self.table, self.pair = [1.0], {"a": 1.0}, (1.0, 2.0)
        self.long = [1.0] * 300
        self.tensor = burn.tensor([1.0, 1.0])
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        trained = sum(1.0 for p in self.parameters() if p.trainable) + 10.0 * (self.layer.weight.dtype == "float64")
        plain = self.number + self.items[0] + self.table["a"] + self.pair[1] + self.long[200] + len(self.name)
        y = self.layer(x.astype(self.layer.weight.dtype)).astype("float32")
        extra = 100.0 if self.training else 0.0
        return (
            y
            + trained
            + plain
            + extra
            + self.drop.p
            + self.tensor
            + burn.tensor(self.array)
            + (1.0 if self.flag else 0.0)
        )


CHANGES: dict[str, Any] = {
    "number": lambda m: setattr(m, "number", 2.0),
    "flag": lambda m: setattr(m, "flag", False),
    "name": lambda m: setattr(m, "name", "abc"),
    "array, in place": lambda m: m.array.__setitem__(0, 7.0),
    "list, in place": lambda m: m.items.__setitem__(0, 7.0),
    "dictionary, in place": lambda m: m.table.__setitem__("a", 7.0),
    "tuple": lambda m: setattr(m, "pair", (1.0, 7.0)),
    "long list, in place": lambda m: m.long.__setitem__(200, 7.0),
    "tensor": lambda m: setattr(m, "tensor", burn.tensor([3.0, 4.0])),
    "train()": lambda m: m.train(),
    "mode of one layer": lambda m: m.drop.train(),
    "a layer's attribute": lambda m: setattr(m.drop, "p", 0.25),
    "freeze": lambda m: m.freeze("layer.bias"),
    "freeze what is not called": lambda m: m.freeze("other.bias"),
    "another parameter": lambda m: setattr(m.layer, "weight", Parameter(np.full((2, 2), 3.0, np.float32))),
    "another layer": lambda m: setattr(m, "layer", nn.Linear(2, 2)),
    "a shared parameter": lambda m: setattr(m.layer, "weight", m.other.weight),
    "assign": lambda m: m.layer.weight.assign(np.full((2, 2), 3.0, np.float32)),
    "element type": lambda m: m.layer.to("float64"),
    "a hook": lambda m: m.layer.register_forward_hook(lambda module, given, result: result * 2.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_compiled_function_sees_what_changes(change: str) -> None:
    burn.manual_seed(0)
    module = Looks()
    function = burn.jit(module)
    x = burn.tensor([[1.0, -2.0]])
    function(x)
    function(x)
    CHANGES[change](module)
    np.testing.assert_allclose(function(x).numpy(), module(x).numpy(), rtol=1e-6)


def _layers() -> list[tuple[str, Any, str]]:
    """Every field of every layer that is made of few arguments: (its name, how it is made, the field)."""
    found = []
    for name in sorted(dir(nn)):
        cls = getattr(nn, name)
        if not (inspect.isclass(cls) and issubclass(cls, nn.Module)):
            continue
        for own in ((), (1,), (0.5,), (2, 2), (2, 2, 1)):
            try:
                layer = cls(*own)
            except Exception:
                continue
            fields = [
                n for n, v in vars(layer).items() if not n.startswith("_") and isinstance(v, (bool, int, float, str))
            ]
            found += [(name, lambda cls=cls, own=own: cls(*own), field) for field in fields]
            break
    return found


LAYERS = _layers()


def test_every_field_of_every_layer_is_seen() -> None:
    """A change of any field invalidates the guards of a program."""
    from burn.tracing.guards import Captured

    assert len(LAYERS) > 60
    for name, make, field in LAYERS:
        layer = make()
        captured = Captured([layer])
        assert captured.holds()
        value = getattr(layer, field)
        object.__setattr__(layer, field, (not value) if isinstance(value, bool) else value * 2 if value else value or 3)
        if getattr(layer, field) != value:
            assert not captured.holds(), f"{name}.{field}"


def test_the_options_of_an_optimizer_are_seen() -> None:
    model = model_of()
    optimizer = optim.SGD(model, lr=0.1)
    step = burn.train.step(model, loss, optimizer)
    step(X, Y)
    optimizer.groups[0].options["weight_decay"] = 10.0
    before = model.a.weight.numpy().copy()
    step(X, Y)
    assert np.abs(model.a.weight.numpy()).sum() < 0.5 * np.abs(before).sum()
    optimizer.groups[0].options["momentum"] = 0.9
    step(X, Y)
    assert "velocity" in optimizer.state["a.weight"]


def test_a_step_loads_what_is_frozen_or_nothing(tmp_path: Path) -> None:
    model = model_of()
    model.freeze("^a")
    step = burn.train.step(model, loss, optim.SGD(model, lr=0.1, momentum=0.9))
    step(X, Y)
    step.save(tmp_path / "a.safetensors")
    saved = checkpoints.read(tmp_path / "a.safetensors")
    checkpoints.write(tmp_path / "b.safetensors", saved.tensors, {**saved.facts, "random": "none"})
    other = model_of()
    other.freeze("^b")
    again = burn.train.step(other, loss, optim.SGD(other, lr=0.1, momentum=0.9))
    before = {**other.state_dict(), **again.optimizer.state_dict()}
    with pytest.raises(ModelError, match="random numbers"):
        again.load(tmp_path / "b.safetensors")
    after = {**other.state_dict(), **again.optimizer.state_dict()}
    assert all(np.array_equal(after[name], array) for name, array in before.items())
    assert [path for path, p in other.named_parameters() if p.trainable] == ["a.weight", "a.bias"]
    again.load(tmp_path / "a.safetensors")
    assert [path for path, p in other.named_parameters() if p.trainable] == ["b.weight", "b.bias"]
    assert "frozen" not in states.facts(None, 1)  # of a step without a model, which tells nothing of parameters
    assert float(again(X, Y)) == float(step(X, Y))
    for (path, p), (_, q) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        assert np.array_equal(p.numpy(), q.numpy()), path
