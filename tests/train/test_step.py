"""`burn.train.step`: one program for every batch size, in place, with all that belongs to a step in it."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.bench.training import burn_kit
from burn.bench.twins import CASES, gpt
from burn.errors import BurnError, CompileError, TypeMismatch
from burn.jitted import Jit
from burn.runtime.executable import Executable


class Net(nn.Module):
    def __init__(self) -> None:
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(4 * 16, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.pool(burn.relu(self.norm(self.conv(x))))
        return self.head(self.drop(x.reshape(x.shape[0], -1)))


def loss(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return nn.CrossEntropyLoss()(model(x), y)


def _batch(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = rng.standard_normal((n, 1, 8, 8)).astype(np.float32) * 0.3 + y[:, None, None, None].astype(np.float32)
    return x, y


def _addresses(tensors: Iterable[Any]) -> list[int]:
    return [t.elements.ctypes.data for t in tensors]


def test_short_names_of_precisions() -> None:
    found = {}
    for name in ("fp16", "float16", "bf16", "bfloat16", "fp32", "float32"):
        burn.manual_seed(0)
        model = nn.Linear(3, 2)
        step = burn.train.step(model, lambda m, x: (m(x) ** 2).mean(), optim.SGD(model, lr=0.1), precision=name)
        found[name] = (float(step(np.ones((2, 3), np.float32))), step.scale is None)
    assert found["fp16"] == found["float16"] != found["bf16"] == found["bfloat16"] != found["fp32"] == found["float32"]
    with pytest.raises(TypeMismatch, match="no training in tf32"):
        burn.train.step(model, loss, optim.SGD(model, lr=0.1), precision="tf32")


def test_one_program_learns_whatever_the_batch_size() -> None:
    burn.manual_seed(1)
    model = Net()
    step = burn.train.step(model, loss, optim.AdamW(model, lr=0.01), clip_norm=1.0)
    losses = [float(step(*_batch((16, 16, 7)[i % 3], i))) for i in range(60)]
    assert np.mean(losses[-6:]) < 0.5 * np.mean(losses[:6])
    assert step.compiled is not None and sum(map(len, step.compiled.programs.values())) == 1
    assert model.training and float(model.norm.running_mean.array.std()) > 0


def test_parameters_and_state_stay_in_place() -> None:
    model = Net()
    optimizer = optim.AdamW(model, lr=0.01)
    step = burn.train.step(model, loss, optimizer)
    tensors = [p for _, p in model.named_parameters()]
    tensors += [b for state in optimizer.state.values() for b in state.values()]
    addresses = _addresses(tensors)  # their first elements are made here
    for i in range(100):
        step(*_batch(8, i))
    assert _addresses(tensors) == addresses


def test_what_else_has_a_parameters_first_elements_keeps_them() -> None:
    drawn, given, told = (np.full((2, 2), v, np.float32) for v in (1.0, 2.0, 3.0))

    class Three(nn.Module):
        def __init__(self) -> None:
            self.drawn = nn.Parameter((2, 2), init=lambda shape: drawn)
            self.given, self.assigned, self.seen = nn.Parameter(given), nn.Parameter((2, 2)), nn.Parameter(given)
            self.assigned.assign(told)

        def forward(self, x: Any) -> Any:
            return (x * self.drawn + self.given + self.assigned + self.seen).sum()

    model = Three()
    seen = model.seen.array
    step = burn.train.step(model, lambda m, x: m(x), optim.SGD(model, lr=1.0))
    step(np.ones((2, 2), np.float32))
    for parameter, array, first in (
        (model.drawn, drawn, 1.0),
        (model.given, given, 2.0),
        (model.assigned, told, 3.0),
        (model.seen, seen, 2.0),
    ):
        assert (array == first).all() and (parameter.array == first - 1.0).all()


def test_a_step_is_one_native_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward, backward and update are the kernels of one program, which Python calls once."""
    model = Net()
    step = burn.train.step(model, loss, optim.AdamW(model, lr=0.01), clip_norm=1.0)
    with pytest.raises(TypeMismatch, match="never called"):
        burn.explain(step)
    step(*_batch(8))
    explained = burn.explain(step)
    assert explained.arena > 0 and "contract" in {kernel.kind for kernel in explained}
    calls: list[str] = []
    for owner in (Executable, Jit):
        for name in ("__call__", "run", "run_giving", "_execute"):
            if name in vars(owner):
                made = vars(owner)[name]
                named = f"{owner.__name__}.{name}"
                monkeypatch.setattr(
                    owner, name, lambda *a, made=made, named=named, **k: calls.append(named) or made(*a, **k)
                )
    step(*_batch(8))
    assert calls == ["Jit.__call__", "Executable.run_giving"]
    addresses = _addresses(model.parameters())
    step(*_batch(5))
    assert _addresses(model.parameters()) == addresses


def test_a_checkpointed_step_needs_little_memory() -> None:
    """24 layers, each rematerialised in the backward pass: less than 40 % of the memory, and the same gradients."""

    class Deep(nn.Module):
        def __init__(self, again: bool) -> None:
            self.again = again
            self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(24))
            self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(24))

        def forward(self, x: Any) -> Any:
            for layer, norm in zip(self.layers, self.norms, strict=True):
                block = lambda x, layer=layer, norm=norm: x + burn.tanh(layer(burn.tanh(norm(x)) * 2.0))  # noqa: E731
                x = burn.checkpoint(block)(x) if self.again else block(x)
            return x

    x = np.random.default_rng(0).standard_normal((256, 32)).astype(np.float32)
    found = []
    for again in (False, True):
        burn.manual_seed(3)
        model = Deep(again).train()
        gradients = burn.jit(lambda x, model=model: burn.grad(lambda m, x: (m(x) ** 2).mean())(model, x))
        found.append((gradients(x), burn.explain(gradients).arena))
    (plain, most), (recomputed, least) = found
    assert least < 0.4 * most
    for path, gradient in plain.items():
        np.testing.assert_allclose(recomputed[path], gradient, rtol=1e-5, atol=1e-5 * np.abs(gradient).max())


class Blocks(nn.Module):
    """Normalised, widened, narrowed, added: three times."""

    def __init__(self) -> None:
        self.norms = nn.ModuleList(nn.LayerNorm(48) for _ in range(3))
        self.inner = nn.ModuleList(nn.Linear(48, 192) for _ in range(3))
        self.outer = nn.ModuleList(nn.Linear(192, 48) for _ in range(3))

    def forward(self, x: Any) -> Any:
        for norm, inner, outer in zip(self.norms, self.inner, self.outer, strict=True):
            x = x + outer(burn.gelu(inner(norm(x))))
        return x


def test_a_step_keeps_within_a_memory() -> None:
    """Activations alone, then also matmuls, are rematerialised: the same numbers, within the memory limit."""
    x = np.random.default_rng(0).standard_normal((301, 48)).astype(np.float32)

    def trained(memory: int | str | None) -> tuple[burn.train.Step, dict[str, np.ndarray], list[float]]:
        burn.manual_seed(3)
        model = Blocks()
        step = burn.train.step(model, lambda m, x: (m(x) ** 2).mean(), optim.SGD(model, lr=0.1), memory=memory)
        losses = [float(step(x)) for _ in range(3)]
        return step, {path: p.numpy() for path, p in model.named_parameters()}, losses

    plain, parameters, losses = trained(None)
    most = burn.explain(plain).arena
    assert "again" not in str(burn.explain(plain))
    step, found, also = trained(int(0.6 * most))
    explained = burn.explain(step)
    assert explained.arena <= 0.6 * most
    assert " again what was not kept" in str(explained).splitlines()[0]
    again = [k for k in explained if any("(again)" in source for source in k.sources)]
    assert len(again) == str(explained).count(", again)") > 0
    np.testing.assert_allclose(also, losses, rtol=1e-6)
    for path, p in parameters.items():
        np.testing.assert_allclose(found[path], p, rtol=1e-5, atol=1e-7, err_msg=path)
    assert np.isfinite(float(step(x[:7])))  # other sizes also run
    with pytest.raises(CompileError, match=r"at batch=301\n.*MB is the least that was found, 0.1 MB is asked for"):
        trained("0.1 MB")


class Again(nn.Module):
    """A layer whose forward pass is rematerialised in the backward pass."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return burn.checkpoint(self.layer)(x)


@pytest.mark.slow
def test_a_checkpointed_gpt_of_24_layers_needs_little_memory() -> None:
    """Against the plain one: less than 40 % of the memory (14 %: 52 MB of 362), and the same gradients."""
    case, found = CASES["gpt"], []
    x, y = case.batch()
    for again in (False, True):
        burn.manual_seed(3)
        model = gpt(burn_kit(), layers=24).train()
        if again:
            model.layers = nn.Sequential(*map(Again, list(model.layers)))
        gradients = burn.jit(lambda x, y, model=model: burn.grad(_words_lost)(model, x, y))
        by_path = {path.replace(".layer.", "."): np.asarray(g) for path, g in gradients(x, y).items()}
        found.append((by_path, burn.explain(gradients).arena))
        print(f"checkpointed {again}: {found[-1][1] / 1e6:.1f} MB")
    (plain, most), (recomputed, least) = found
    assert least < 0.4 * most
    assert plain.keys() == recomputed.keys()
    largest = max(np.abs(g).max() for g in plain.values())
    for path, gradient in plain.items():  # a key's bias has none: softmax does not see it
        np.testing.assert_allclose(recomputed[path], gradient, rtol=1e-4, atol=1e-6 * largest, err_msg=path)


def _words_lost(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return nn.CrossEntropyLoss()(model(x), y.reshape(-1))


def test_memory_does_not_grow() -> None:
    model = nn.Linear(8, 8)
    step = burn.train.step(model, lambda m, x: (m(x) ** 2).mean(), optim.SGD(model, lr=0.01, momentum=0.9))
    x = np.ones((4, 8), np.float32)
    for _ in range(200):
        step(x)
    growths = []
    for _ in range(4):  # what an allocator or another thread keeps once is no leak
        gc.collect()
        before = _resident()
        for _ in range(2500):
            step(x)
        gc.collect()
        growths.append(_resident() - before)
    assert min(growths) < 1 << 19


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_what_else_a_step_returns() -> None:
    model = nn.Linear(2, 2)

    def with_output(model: nn.Module, x: burn.Tensor) -> Any:
        y = model(x)
        return (y * y).mean(), {"y": y}

    step = burn.train.step(model, with_output, optim.SGD(model, lr=0.1), has_aux=True)
    x = np.ones((3, 2), np.float32)
    want = model(burn.tensor(x)).numpy()
    value, extra = step(x)
    np.testing.assert_allclose(extra["y"], want, rtol=1e-6)
    np.testing.assert_allclose(value, (want**2).mean(), rtol=1e-5)


def test_frozen_parameters_stay() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model.freeze("^0")
    before = model.state_dict()
    step = burn.train.step(model, lambda m, x: m(x).mean(), optim.SGD(model, lr=0.1))
    step(np.ones((3, 2), np.float32))
    after = model.state_dict()
    assert all(np.array_equal(before[k], after[k]) == k.startswith("0") for k in before)


def test_what_a_step_refuses() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(TypeMismatch, match="not the model's"):
        burn.train.step(model, loss, optim.SGD(nn.Linear(2, 2)))
    with pytest.raises(TypeMismatch, match="clip_norm is -1"):
        burn.train.step(model, loss, optim.SGD(model), clip_norm=-1.0)
    with pytest.raises(TypeMismatch, match=r"taken whole\n.*accumulate is 2"):
        burn.train.step(model, loss, optim.SGD(model), memory="1 GB", accumulate=2)
    with pytest.raises(BurnError, match=r"memory is malformed\n.*'a lot' is no size"):
        burn.train.step(model, loss, optim.SGD(model), memory="a lot")
    step = burn.train.step(model, lambda m, x: m(x), optim.SGD(model))
    with pytest.raises(TypeMismatch, match="float scalar"):
        step(np.ones((3, 2), np.float32))


def test_a_step_that_fails_moves_no_parameter() -> None:
    model = Net()
    optimizer = optim.AdamW(model, lr=0.01)
    step = burn.train.step(model, loss, optimizer)
    x, y = _batch(8)
    for _ in range(2):  # from the second on, in place
        step(x, y)
    before = {path: p.elements.copy() for path, p in model.named_parameters(buffers=False)}
    with pytest.raises(burn.BurnError, match="index 7 is out of range"):
        step(x, np.full(8, 7))
    for path, p in model.named_parameters(buffers=False):
        np.testing.assert_array_equal(p.elements, before[path], err_msg=path)
    assert int(optimizer.steps.array) == 2
    assert np.isfinite(float(step(x, y)))
