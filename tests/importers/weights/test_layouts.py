"""Layers with weights laid out by PyTorch, and by Burn in Rust, compute what they compute there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import ModelError
from burn.importers.weights.layouts import rule

rng = np.random.default_rng(23)


def draw(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def run(module: nn.Module, *arrays: np.ndarray) -> Any:
    return burn.compile(module, arrays)(*arrays)


def filled(torch: Any, module: Any) -> dict[str, np.ndarray]:
    """A torch module's state dict, with every number drawn anew."""
    with torch.no_grad():
        for p in [*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())]:
            p.copy_(torch.from_numpy(np.abs(draw(*p.shape)) + np.float32(0.1)) * 0.5)
    module.eval()
    return {name: p.detach().numpy() for name, p in module.state_dict().items()}


PAIRS = {
    "Linear": (lambda t: t.Linear(5, 3), lambda: nn.Linear(5, 3), (2, 5)),
    "Linear transposed": (lambda t: t.Linear(5, 5), lambda: nn.Linear(5, 5, transposed=True), (2, 5)),
    "Embedding": (lambda t: t.Embedding(7, 3), lambda: nn.Embedding(7, 3), None),
    "Conv1d": (lambda t: t.Conv1d(4, 6, 3, groups=2), lambda: nn.Conv1d(4, 6, 3, groups=2), (2, 4, 7)),
    "ConvTranspose2d": (lambda t: t.ConvTranspose2d(4, 3, 2), lambda: nn.ConvTranspose2d(4, 3, 2), (1, 4, 5, 3)),
    "LayerNorm": (lambda t: t.LayerNorm(5), lambda: nn.LayerNorm(5), (3, 5)),
    "BatchNorm2d": (lambda t: t.BatchNorm2d(3), lambda: nn.BatchNorm2d(3), (2, 3, 5, 1)),
    "GroupNorm": (lambda t: t.GroupNorm(2, 4), lambda: nn.GroupNorm(2, 4), (2, 4, 5)),
    "PReLU": (lambda t: t.PReLU(), lambda: nn.PReLU(), (2, 3)),
}


@pytest.mark.parametrize("case", PAIRS)
def test_layers_with_torch_s_weights(case: str) -> None:
    torch = pytest.importorskip("torch")
    theirs, ours, shape = PAIRS[case]
    theirs, ours = theirs(torch.nn), ours()
    report = ours.load(filled(torch, theirs), adapter="torch")
    assert report.complete
    x = draw(*shape) if shape else np.array([[1, 6], [0, 3]])
    want = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(run(ours, x), want, rtol=1e-5, atol=1e-5)


def test_attention_from_one_matrix() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(6, 2, batch_first=True)
    ours = nn.MultiheadAttention(6, 2)
    report = ours.load(filled(torch, theirs), adapter="torch")
    assert report.complete and {a.sources for a in report.applied} >= {("in_proj_weight",), ("out_proj.bias",)}
    q, k, v = draw(2, 3, 6), draw(2, 5, 6), draw(2, 5, 6)
    want = theirs(*map(torch.from_numpy, (q, k, v)))[0].detach().numpy()
    np.testing.assert_allclose(run(ours, q, k, v), want, rtol=1e-5, atol=1e-5)


def outputs(module: nn.Module, x: np.ndarray) -> np.ndarray:
    """y [steps, batch, directions * hidden], as torch gives it."""
    y = run(module, x)[0]
    return y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) if y.ndim == 4 else y


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("both", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_recurrent_layers_with_torch_s_weights(kind: str, both: bool, bias: bool) -> None:
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, kind)(3, 5, bias=bias, bidirectional=both)
    ours = recurrent(kind, both, bias)
    assert ours.load(filled(torch, theirs), adapter="torch").complete
    x = draw(4, 2, 3)
    np.testing.assert_allclose(outputs(ours, x), theirs(torch.from_numpy(x))[0].detach().numpy(), rtol=1e-5, atol=1e-5)


def recurrent(kind: str, both: bool, bias: bool) -> nn.Module:
    options = {"reset_after": True} if kind == "GRU" else {}
    return getattr(nn, kind)(3, 5, direction="bidirectional" if both else "forward", bias=bias, **options)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_cells_of_torch(kind: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, f"{kind}Cell")(3, 5)
    ours = recurrent(kind, False, True)
    assert ours.load(filled(torch, theirs), adapter="torch").complete
    x = draw(1, 2, 3)
    want = theirs(torch.from_numpy(x[0]))
    want = (want[0] if kind == "LSTM" else want).detach().numpy()
    np.testing.assert_allclose(outputs(ours, x)[0], want, rtol=1e-5, atol=1e-5)


def test_a_gru_that_computes_something_else_is_refused() -> None:
    torch = pytest.importorskip("torch")
    state = filled(torch, torch.nn.GRU(3, 5))
    with pytest.raises(ModelError, match=r"resets the state before the matmul.*reset_after=True"):
        nn.GRU(3, 5, reset_after=False).load(state, adapter="torch")
    own = nn.GRU(3, 5, reset_after=False)
    assert own.load(own.state_dict()).complete


# ---- Burn ----------------------------------------------------------------------------------------------------------------


def test_linear_layers_and_norms_in_burns_layout() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.attention = nn.MultiheadAttention(4, 2)
            self.norm = nn.LayerNorm(4)
            self.rms = nn.RMSNorm(4)
            self.act = nn.PReLU()
            self.wide = nn.Linear(4, 4, transposed=True)

    state = {f"attention.{n}.{p}": draw(*s) for n in ("query", "key", "value", "output") for p, s in
             (("weight", (4, 4)), ("bias", (4,)))}  # fmt: skip
    state |= {"norm.gamma": draw(4), "norm.beta": draw(4), "rms.gamma": draw(4), "act.alpha": draw(1)}
    state |= {"wide.weight": draw(4, 4), "wide.bias": draw(4)}
    net = Net()
    assert net.load(state, adapter="burn").complete
    own = net.state_dict()
    np.testing.assert_array_equal(own["attention.key.weight"], state["attention.key.weight"].T)
    np.testing.assert_array_equal(own["wide.weight"], state["wide.weight"])
    np.testing.assert_array_equal(own["norm.bias"], state["norm.beta"])
    np.testing.assert_array_equal(own["act.weight"], state["act.alpha"])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def walk(kind: str, state: dict[str, np.ndarray], x: np.ndarray, prefix: str = "") -> np.ndarray:
    """The recurrences of burn-nn (modules/rnn), in float64: x [steps, batch, in] -> [steps, batch, hidden]."""

    def part(gate: str, which: str, operand: np.ndarray) -> np.ndarray:
        path = f"{prefix}{gate}.{which}_transform"
        return operand @ state[f"{path}.weight"].astype(float) + state[f"{path}.bias"]

    def gate(name: str) -> np.ndarray:
        return part(name, "input", step) + part(name, "hidden", h)

    h = c = np.zeros((x.shape[1], 5))
    steps = []
    for step in x.astype(float):
        if kind == "RNN":
            h = np.tanh(gate("gate"))
        elif kind == "GRU":
            z, r = sigmoid(gate("update_gate")), sigmoid(gate("reset_gate"))
            n = np.tanh(part("new_gate", "input", step) + r * part("new_gate", "hidden", h))
            h = (1 - z) * n + z * h
        else:
            i, f, o = (sigmoid(gate(f"{name}_gate")) for name in ("input", "forget", "output"))
            c = f * c + i * np.tanh(gate("cell_gate"))
            h = o * np.tanh(c)
        steps.append(h)
    return np.stack(steps)


GATES = {
    "RNN": ["gate"],
    "GRU": ["update_gate", "reset_gate", "new_gate"],
    "LSTM": ["input_gate", "forget_gate", "output_gate", "cell_gate"],
}


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("both", [False, True], ids=["forward", "bidirectional"])
def test_recurrent_layers_with_burn_s_weights(kind: str, both: bool) -> None:
    prefixes = ["forward.", "reverse."] if both else [""]
    state = {}
    for gate in [prefix + g for prefix in prefixes for g in GATES[kind]]:
        for which, rows in (("input", 3), ("hidden", 5)):
            state[f"{gate}.{which}_transform.weight"] = draw(rows, 5)
            state[f"{gate}.{which}_transform.bias"] = draw(5)
    ours = recurrent(kind, both, True)
    assert ours.load(state, adapter="burn").complete
    x = draw(4, 2, 3)
    want = walk(kind, state, x, prefixes[0])
    if both:
        want = np.concatenate([want, walk(kind, state, x[::-1], "reverse.")[::-1]], axis=-1)
    np.testing.assert_allclose(outputs(ours, x), want, rtol=1e-5, atol=1e-5)


def test_a_layer_of_one_s_own_may_have_a_rule() -> None:
    from burn.importers.weights.layouts import Part

    class Scale(nn.Module):
        def __init__(self) -> None:
            self.factor = nn.Parameter((3,))

    @rule(Scale, "torch")
    def _(layer: Scale):
        yield Part("factor", ("log_factor",), (layer.factor.shape,), np.exp, "exp")

    class Net(nn.Module):
        def __init__(self) -> None:
            self.blocks = nn.ModuleList([Scale(), Scale()])

    net = Net()
    report = net.load({f"blocks.{i}.log_factor": np.full(3, i, np.float32) for i in range(2)}, adapter="torch")
    np.testing.assert_allclose(net.state_dict()["blocks.1.factor"], np.full(3, np.e), rtol=1e-6)
    assert report.applied[1].how == "exp"
    with pytest.raises(ValueError, match="layouts are"):
        rule(Scale, "jax")
