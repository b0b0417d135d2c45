"""PyTorch modules that burn trains: the same steps as torch's own, names and elements taken over and given back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
from burn import nn, optim  # noqa: E402
from burn.errors import InputError, ModelError, RunError, TypeMismatch  # noqa: E402


class Net(torch.nn.Module):
    """Batch normalisation, dropout that drops nothing, and a table that is used twice."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4)
        self.drop = torch.nn.Dropout(rate)
        self.hidden, self.table = torch.nn.Linear(36, 3), torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.table.weight
        self.hidden.bias.requires_grad_(False)
        self.register_buffer("offset", torch.full((5,), 0.5))

    def forward(self, x: Any, ids: Any, scale: float = 2.0) -> Any:
        h = self.drop(self.norm(self.conv(x)).relu().flatten(1))
        return {"scores": self.head(self.hidden(h) + self.table(ids)) * scale + self.offset}


def batch(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2, 5, 5), np.float32), rng.integers(0, 5, n), rng.integers(0, 5, n)


def opened(module: Any) -> Any:
    x, ids, _ = batch(4)
    sizes = {"x": {0: "n"}, "ids": {0: "n"}}
    return burn.compile(module, (torch.from_numpy(x), torch.from_numpy(ids)), dynamic=sizes, train=True)


def loss(model: Any, x: burn.Tensor, ids: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return nn.CrossEntropyLoss()(model(x, ids=ids)["scores"], y)


def test_steps_are_torchs() -> None:
    torch.manual_seed(0)
    theirs = Net()
    ours = opened(theirs)
    named = dict(ours.named_parameters())
    assert named.keys() == theirs.state_dict().keys() - {"head.weight"}
    assert {k for k, _ in ours.named_buffers()} == {k for k, _ in theirs.named_buffers()}
    assert not named["hidden.bias"].trainable
    step = burn.train.step(ours, loss, optim.SGD(ours, lr=0.1))
    own = torch.optim.SGD([p for p in theirs.parameters() if p.requires_grad], lr=0.1)
    theirs.train()
    for i, n in enumerate((4, 4, 3)):
        x, ids, y = batch(n, i)
        own.zero_grad()
        want = torch.nn.functional.cross_entropy(
            theirs(torch.from_numpy(x), torch.from_numpy(ids))["scores"], torch.from_numpy(y)
        )
        want.backward()
        own.step()
        np.testing.assert_allclose(step(x, ids, y), want.item(), rtol=1e-5)
    assert step.compiled is not None and sum(map(len, step.compiled.programs.values())) == 1
    fresh = Net()
    ours.copy_to(fresh)
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_allclose(fresh.state_dict()[name].numpy(), tensor.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)
    x, ids, _ = batch(3)
    want = fresh.eval()(torch.from_numpy(x), torch.from_numpy(ids))["scores"]
    np.testing.assert_allclose(ours.eval()(x, ids)["scores"].numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_dropout_and_calls() -> None:
    ours = opened(Net(0.5))
    x, ids, _ = batch(3)
    assert np.array_equal(ours(x, ids)["scores"].numpy(), ours(x, ids)["scores"].numpy())
    ours.train()
    assert not np.array_equal(ours(x, ids)["scores"].numpy(), ours(x, ids)["scores"].numpy())
    with pytest.raises(InputError, match="'ids' is missing"):
        ours(x)
    with pytest.raises(ModelError, match=r"there is no 'conv.weight'"):
        ours.copy_to(torch.nn.Linear(2, 2))
    with pytest.raises(TypeMismatch, match="trained as they are"):
        burn.compile(nn.Linear(2, 2), ("float32[1, 2]",), train=True)


def test_dropout_inside_of_attention() -> None:
    """With a unit matrix as values the results are the probabilities: some are zero and the others scaled up."""

    class Attention(torch.nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            drop = 0.4 if self.training else 0.0
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=drop, enable_gqa=True)

    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 6, 8)
    v = torch.eye(6).expand(2, 2, 6, 6).contiguous()
    ours = burn.compile(Attention(), (q, k, v), train=True)
    given = (q.numpy(), k.numpy(), v.numpy())
    whole, dropped = ours(*given).numpy(), ours.train()(*given).numpy()
    np.testing.assert_allclose(whole.sum(-1), 1.0, rtol=1e-5)
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept] * 0.6, whole[kept], rtol=1e-5)
    assert 0.45 < kept.mean() < 0.75


def test_a_program_in_a_file(tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 2)
    x = torch.ones(4, 3)
    exported = torch.export.export(module, (x,), dynamic_shapes={"input": {0: torch.export.Dim("n")}})
    torch.export.save(exported, tmp_path / "linear.pt2")
    ours = burn.load(tmp_path / "linear.pt2", train=True)
    grads = burn.grad(lambda m, x: m(x).sum())(ours, np.ones((5, 3), np.float32))
    np.testing.assert_allclose(grads["weight"].numpy(), np.full((2, 3), 5.0))
    np.testing.assert_allclose(ours["bias"].array, module.bias.detach().numpy())
    (tmp_path / "x.mlir").write_text("")
    with pytest.raises(ModelError, match="cannot be trained"):
        burn.load(tmp_path / "x.mlir", train=True)


class Masked(torch.nn.Module):
    """Drops whole rows: the mask has as many as torch's example had."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 3, 3)

    def forward(self, x: Any) -> Any:
        h = self.conv(x)
        return h * (torch.arange(h.shape[0]) % 2).reshape(-1, 1, 1, 1) + h.mean((0, 2, 3), keepdim=True)


def test_a_step_of_a_module_exported_for_one_batch_has_known_sizes() -> None:
    torch.manual_seed(0)
    module, x = Masked(), batch(6)[0]
    model = burn.compile(module, (torch.from_numpy(x),), train=True)
    step = burn.train.step(model, lambda m, x: (m(x) ** 2).mean(), optim.SGD(model, lr=0.1))
    theirs = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        theirs.zero_grad()
        loss = (module(torch.from_numpy(x)) ** 2).mean()
        loss.backward()
        theirs.step()
        np.testing.assert_allclose(float(step(x)), loss.item(), rtol=1e-5)
    with pytest.raises(RunError, match=r"batch == 6 \(a size of 'x'\) does not hold: the lhs is 4"):
        step(x[:4])
    program, _ = step.compiled.program_of((burn.tensor(x),), {})
    kernels = program.function.executable.artefact.kernels
    assert [kernel.name for kernel in kernels if "batch" in kernel.bytes] == ["reshape+transpose"]  # it reads the input
