"""Several optimizers by parameter, against the same optimizers of PyTorch beside each other; Muon against float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.errors import ModelError, TypeMismatch


class Net(nn.Module):
    def __init__(self) -> None:
        self.embed = nn.Embedding(7, 5)
        self.tall = nn.Linear(5, 9)
        self.wide = nn.Linear(9, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.wide(burn.tanh(self.tall(self.embed(x))))


def is_matrix(path: str, p: nn.Parameter) -> bool:
    return p.ndim == 2 and "embed" not in path


def loss(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return ((model(x) - y) ** 2).sum()


def batch(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 7, 4), rng.standard_normal((4, 3)).astype(np.float32)


def combined(model: nn.Module, **muon: Any) -> optim.Combined:
    return optim.Combined(model, [(is_matrix, optim.Muon.Config(lr=0.02, **muon)), ("", optim.AdamW.Config(lr=0.01))])


MUONS: list[dict[str, Any]] = [
    {},
    {"nesterov": False, "momentum": 0.5, "weight_decay": 0.0},
    {"adjust": "match_rms_adamw", "rounds": 3, "coefficients": (3.0, -3.2, 1.2)},
]


def muon64(p: np.ndarray, g: np.ndarray, m: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """A step of torch.optim.Muon in float64."""
    o = {
        "momentum": 0.95,
        "nesterov": True,
        "weight_decay": 0.1,
        "rounds": 5,
        "coefficients": (3.4445, -4.7750, 2.0315),
    }
    o |= options
    # pyrefly: ignore  # narrower than what is passed
    m = m + (g - m) * (1 - o["momentum"])
    x = g + (m - g) * o["momentum"] if o["nesterov"] else m
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / max(float(np.linalg.norm(x)), 1e-7)
    # pyrefly: ignore  # narrower than what is passed
    a, b, c = o["coefficients"]
    # pyrefly: ignore  # narrower than what is passed
    for _ in range(o["rounds"]):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    rows, columns = p.shape
    scale = max(1, rows / columns) ** 0.5 if "adjust" not in o else 0.2 * max(rows, columns) ** 0.5
    # pyrefly: ignore  # narrower than what is passed
    return p * (1 - 0.02 * o["weight_decay"]) - 0.02 * scale * (x.T if tall else x), m


@pytest.mark.parametrize(
    "options",
    [MUONS[0], pytest.param(MUONS[1], marks=pytest.mark.slow), pytest.param(MUONS[2], marks=pytest.mark.slow)],
    ids=["default", "plain", "adjusted"],
)
def test_muon_beside_adamw(options: dict[str, Any]) -> None:
    """Gradients from PyTorch; Muon in float64 numpy, and PyTorch's own to the accuracy of its bfloat16."""
    torch = pytest.importorskip("torch")
    burn.manual_seed(0)
    ours = Net()
    theirs = torch.nn.Sequential(
        torch.nn.Embedding(7, 5), torch.nn.Linear(5, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3)
    )
    parts = [theirs[0], theirs[1], theirs[3]]
    mine = [p for _, p in ours.named_parameters()]
    with torch.no_grad():
        for p, q in zip((p for part in parts for p in part.parameters()), mine, strict=True):
            p.copy_(torch.from_numpy(q.numpy().copy()))
    exact = theirs.double()
    matrices = [exact[1].weight, exact[3].weight]
    others = [p for p in exact.parameters() if all(p is not m for m in matrices)]
    adamw = torch.optim.AdamW(others, lr=0.01)
    names = {"rounds": "ns_steps", "coefficients": "ns_coefficients", "adjust": "adjust_lr_fn"}
    muon = torch.optim.Muon(
        [torch.nn.Parameter(m.detach().clone()) for m in matrices],
        lr=0.02, **{names.get(n, n): v for n, v in options.items()},
    )  # fmt: skip
    averages = [np.zeros(m.shape) for m in matrices]
    step = burn.train.step(ours, loss, combined(ours, **options))
    for i in range(4):
        x, y = batch(i)
        exact.zero_grad()
        ((exact(torch.from_numpy(x)) - torch.from_numpy(y)) ** 2).sum().backward()
        adamw.step()
        for k, (m, copy) in enumerate(zip(matrices, muon.param_groups[0]["params"], strict=True)):
            copy.grad = m.grad.clone()
            new, averages[k] = muon64(m.detach().numpy(), m.grad.numpy(), averages[k], options)
            with torch.no_grad():
                m.copy_(torch.from_numpy(new))
        muon.step()
        step(x, y)
    for p, q in zip((p for part in parts for p in part.parameters()), mine, strict=True):
        np.testing.assert_allclose(q.numpy(), p.detach().numpy(), rtol=1e-4, atol=2e-5)
    for m, copy in zip(matrices, muon.param_groups[0]["params"], strict=True):
        np.testing.assert_allclose(copy.detach().numpy(), m.detach().numpy(), atol=0.02)


@pytest.mark.slow
def test_resumed_with_the_same_bits(tmp_path: Path) -> None:
    """In a Learner with clipping, half precision and a parameter that is frozen on the way."""

    def learner(folder: str) -> burn.train.Learner:
        burn.manual_seed(0)
        net = Net()

        def freezing(event: Any, control: Any) -> None:
            if isinstance(event, burn.train.events.EpochEnded) and event.epoch == 1:
                net.freeze("tall.weight")
                frozen[folder] = net.tall.weight.numpy().copy()

        options: dict[str, Any] = {"clip_norm": 1.0, "accumulate": 2, "precision": "float16", "progress": False}
        options |= {"observers": [freezing], "folder": tmp_path / folder}
        return burn.train.Learner(net, loss, combined(net), **options)

    frozen: dict[str, np.ndarray] = {}
    batches = [batch(i) for i in range(3)]
    whole, parts = learner("a"), learner("b")
    whole.fit(batches, epochs=3)
    parts.fit(batches, epochs=2)
    parts = learner("b")
    parts.fit(batches, epochs=3, resume=True)
    a, b = (one.optimizers[""].state_dict() for one in (whole, parts))
    assert a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
    assert {"0.steps", "1.steps", "state.wide.weight.average", "count.tall.weight"} <= a.keys()
    for (path, p), (_, q) in zip(whole.model.named_parameters(), parts.model.named_parameters(), strict=True):
        assert np.array_equal(p.numpy(), q.numpy()), path
    assert np.array_equal(whole.model.tall.weight.numpy(), frozen["a"])


def test_rates_state_and_what_is_refused() -> None:
    net = Net()
    optimizer = combined(net)
    assert optimizer.lr == 0.02 and set(optimizer.parameters) == {path for path, _ in net.named_parameters()}
    optimizer.lr = 0.01
    assert [group.rate.array for group in optimizer.groups] == [0.01, 0.005]
    state = optimizer.state_dict()
    with pytest.raises(ModelError, match=r"'2\.steps' is unknown"):
        optimizer.load_state_dict({**state, "2.steps": state["0.steps"]})
    with pytest.raises(ModelError, match=r"state\.embed\.weight\.square"):
        optimizer.load_state_dict(
            {**state, "0.steps": np.array(9), "state.embed.weight.square": np.zeros(2, np.float32)}
        )
    assert int(optimizer.steps.array) == 0  # of the first member, which took its share before
    with pytest.raises(TypeMismatch, match=r"'tall\.bias'"):
        optim.Combined(Net(), [("weight", optim.SGD.Config(lr=0.1))])
    with pytest.raises(TypeMismatch, match="selector 1"):
        optim.Combined(Net(), [("", optim.SGD.Config(lr=0.1)), ("embed", optim.SGD.Config(lr=0.1))])
    with pytest.raises(TypeMismatch, match="LBFGS"):
        optim.Combined(Net(), [("", optim.LBFGS)])
    with pytest.raises(TypeMismatch, match=r"'tall\.bias'"):
        optim.Combined(Net(), [("", optim.Muon.Config())])
    with pytest.raises(TypeMismatch, match="is no parameter that it trains"):
        optimizer.update({"nothing": burn.ones(2)})
    with pytest.raises(TypeMismatch, match="match_rms_adamw"):
        # pyrefly: ignore  # narrower than what is passed
        optim.Muon(net.wide.freeze("bias"), adjust="other")
    net = Net()
    net.freeze("embed|bias")
    only = optim.Combined(net, [(is_matrix, optim.Muon.Config())])
    net.unfreeze("embed")
    with pytest.raises(TypeMismatch, match="new"):
        _ = only.parameters


def test_a_parameter_whose_path_is_of_another_selector() -> None:
    """It goes to the optimizer of that selector, and is not left without one."""
    net = nn.Sequential(nn.Linear(3, 2))
    optimizer = optim.Combined(
        net, [("^0.weight", optim.SGD.Config(lr=1.0, momentum=0.9)), ("", optim.SGD.Config(lr=0.5))]
    )
    assert [set(m.parameters) for m in optimizer.members] == [{"0.weight"}, {"0.bias"}]
    nn.adapt.lora(net, "0", rank=1, freeze=False)
    base = {"0.base_layer.weight", "0.base_layer.bias"}
    rest = {"0.lora_A.weight", "0.lora_B.weight"}
    assert set(optimizer.parameters) == base | rest
    assert [set(m.parameters) for m in optimizer.members] == [set(), base | rest]
    weight = net[0].base_layer.weight
    before = weight.numpy().copy()
    optimizer.update({"0.base_layer.weight": burn.ones(2, 3)})
    np.testing.assert_allclose(weight.numpy(), before - 0.5, rtol=1e-6)
    nn.adapt.remove(net)
    assert set(optimizer.parameters) == {"0.weight", "0.bias"}
    assert [set(m.parameters) for m in optimizer.members] == [{"0.weight"}, {"0.bias"}]
