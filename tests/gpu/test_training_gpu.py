"""Parts of training steps on a real GPU: masks of dropout, projections that are trained as one matmul. Skipped without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn import ops, optim, train
from tests.codegen.dropouts import KEY, kept

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

WIDTH, HEADS = 256, 4


@pytest.mark.parametrize("rate", [0.1, 0.995])
@pytest.mark.parametrize("shape", [(5,), (3, 15), (7, 64), (32, 128, 768), (4, 131), (2, 100003)], ids=str)
def test_masks(shape: tuple[int, ...], rate: float) -> None:
    got = burn.jit(lambda key: ops.random_kept(key, shape=shape, rate=rate), device="cuda")(np.array(KEY, np.uint32))
    np.testing.assert_array_equal(np.asarray(got), kept(KEY, shape, rate))


class Attention(torch.nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.first, self.q, self.k, self.v, self.out = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        q, k, v = (made(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for made in (self.q, self.k, self.v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("length", "causal"), [(128, False), (197, False), (1024, True)])
def test_joined_projections(length: int, causal: bool) -> None:
    """A step of gradient descent in bfloat16 beside torch's in float64. Kernels of attention write one tensor of gradients."""
    torch.manual_seed(0)
    module, x, weight = Attention(causal), torch.randn(2, length, WIDTH), torch.randn(2, length, WIDTH)
    twin = burn.compile(module, (x,), train=True)
    before = {key: np.array(p, "f8") for key, p in twin.named_parameters()}
    step = train.step(
        twin, lambda m, x, w: (m(x) * w).mean(), optim.SGD(twin, lr=100.0), precision="bfloat16", device="cuda"
    )
    step(*(burn.tensor(each.numpy()).to("cuda") for each in (x, weight)))
    reference = module.double()
    (reference(x.double()) * weight.double()).mean().backward()
    wanted = {key: 100 * p.grad.numpy() for key, p in reference.named_parameters()}
    for key, p in twin.named_parameters():
        if key == "k.bias":
            continue  # it changes no probability: its gradient is zero but for rounding
        got = before[key] - np.asarray(p, "f8")
        assert np.linalg.norm(got - wanted[key]) < 6e-2 * np.linalg.norm(wanted[key]), key
