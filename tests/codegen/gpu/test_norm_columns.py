"""Gradients of norms behind matmuls: one kernel has the gradient of the norm's input, of its scale and of its offset."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import burn
from burn import optim, train
from tests.codegen.gpu.simulated_gpu import SimulatedGPU

ROWS, WIDTH, HIDDEN = 320, 24, 40


class PostNorm(torch.nn.Module):
    """Norms of sums, as in BERT: the gradient of the first one is a matmul's result and a residual's gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, WIDTH)
        self.last = torch.nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x + self.first(x))
        return self.last(x + self.down(torch.nn.functional.gelu(self.up(x))))


@pytest.mark.parametrize(("precision", "bound"), [("float32", 1e-4), ("float16", 5e-3), ("bfloat16", 4e-2)])
def test_gradients(gpu: SimulatedGPU, precision: str, bound: float) -> None:
    """A step of gradient descent beside torch's in float64."""
    torch.manual_seed(0)
    module, x, weight = PostNorm(), torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    twin = burn.compile(module, (x,), train=True)
    parameters = dict(twin.named_parameters())
    before = {key: np.asarray(p, "f8") for key, p in parameters.items()}
    step = train.step(
        twin, lambda m, x, w: (m(x) * w).mean(), optim.SGD(twin, lr=1.0), device="cuda", precision=precision
    )
    step(*(burn.tensor(each.numpy()).to("cuda") for each in (x, weight)))
    reference = module.double()
    (reference(x.double()) * weight.double()).mean().backward()
    for key, p in reference.named_parameters():
        assert p.grad is not None
        want = p.grad.numpy()
        error = np.linalg.norm(before[key] - np.asarray(parameters[key], "f8") - want) / np.linalg.norm(want)
        assert error < bound, key
    if precision == "bfloat16":  # a kernel of its own would be the sum of a tensor in memory, times the step's scale
        names = [kernel.name for kernel in step.executable.artefact.kernels if kernel.kind == "reduce"]
        assert len(names) == 8 and "reduce+mul" not in names
