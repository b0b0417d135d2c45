"""Queries, keys and values as one matmul in steps of half precision: the gradients are right, and parameters stay apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import burn
from burn import optim, train

WIDTH, ROWS, HEADS = 32, 24, 2


class Attention(torch.nn.Module):
    """Keys have no bias, as in Whisper; values are narrower, as with grouped queries."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.v = torch.nn.Linear(WIDTH, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (made(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for made in (self.q, self.k, self.v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("precision", "bound"), [("float16", 1e-2), ("bfloat16", 6e-2)])
def test_gradients(precision: str, bound: float) -> None:
    """A step of gradient descent beside torch's in float64."""
    torch.manual_seed(0)
    module, x, weight = Attention(), torch.randn(3, ROWS, WIDTH), torch.randn(3, ROWS, 20)
    twin = burn.compile(module, (x,), train=True)
    parameters = dict(twin.named_parameters())
    before = {key: np.asarray(p, "f8") for key, p in parameters.items()}
    step = train.step(twin, lambda m, x, w: (m(x) * w).mean(), optim.SGD(twin, lr=10.0), precision=precision)
    step(x.numpy(), weight.numpy())
    reference = module.double()
    (reference(x.double()) * weight.double()).mean().backward()
    for key, p in reference.named_parameters():
        assert p.grad is not None
        want = 10 * p.grad.numpy()
        error = np.linalg.norm(before[key] - np.asarray(parameters[key], "f8") - want) / np.linalg.norm(want)
        assert error < bound, key


def test_weights_that_are_not_trained() -> None:
    """They stay as they are, and the others learn what they learn alone."""
    torch.manual_seed(0)
    module, x = Attention(), torch.randn(2, ROWS, WIDTH)
    changes = []
    for frozen in ((), ("k.weight", "v.bias")):
        twin = burn.compile(module, (x,), train=True)
        for key in frozen:
            twin[key].trainable = False
        before = {key: np.array(p) for key, p in twin.named_parameters()}
        train.step(twin, lambda m, x: (m(x) ** 2).mean(), optim.SGD(twin, lr=1.0), precision="bfloat16")(x.numpy())
        changes.append({key: np.asarray(p) - before[key] for key, p in twin.named_parameters()})
    for key, change in changes[1].items():
        want = np.zeros_like(change) if key in ("k.weight", "v.bias") else changes[0][key]
        np.testing.assert_allclose(change, want, rtol=2e-2, atol=1e-4 * float(np.abs(changes[0][key]).max()))


def test_names_of_uses() -> None:
    """Adapters and exporters read the program in full precision, which has a matmul for each weight."""
    module, x = Attention(), torch.randn(2, ROWS, WIDTH)
    twin = burn.compile(module, (x,), train=True)
    train.step(twin, lambda m, x: (m(x) ** 2).mean(), optim.SGD(twin, lr=1.0), precision="bfloat16")(x.numpy())
    assert twin.weight_uses("q.weight") == [("dot_general", 1)]
