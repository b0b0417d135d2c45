"""Gradients of slices, unfolds and attention on a GPU: right, and without kernels that only move their parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import burn
from burn import optim, train
from tests.codegen.gpu.simulated_gpu import SimulatedGPU

BATCH, ROWS, HEADS, DEPTH = 2, 20, 2, 16


class Attention(torch.nn.Module):
    """Queries, keys and values from one projection, as timm writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(HEADS * DEPTH, 3 * HEADS * DEPTH)
        self.out = torch.nn.Linear(HEADS * DEPTH, HEADS * DEPTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, width = x.shape
        q, k, v = self.project(x).reshape(batch, rows, 3, HEADS, DEPTH).permute(2, 0, 3, 1, 4).unbind(0)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, rows, width))


class Rotated(torch.nn.Module):
    """Rotary positions: both parts of a row are read twice."""

    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(HEADS * DEPTH, HEADS * DEPTH)
        self.register_buffer("cos", torch.randn(ROWS, HEADS * DEPTH))
        self.register_buffer("sin", torch.randn(ROWS, HEADS * DEPTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.project(x)
        first, second = y.chunk(2, -1)
        return y * self.cos + torch.cat([-second, first], -1) * self.sin


class Unfolded(torch.nn.Module):
    """Overlapping windows of an image that a layer computes."""

    def __init__(self, size: int, stride: int) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(3, 1, 1))
        self.unfold = torch.nn.Unfold(size, stride=stride, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.unfold(x.reshape(BATCH, 3, 7, 9) * self.scale)


CASES = {
    "attention": (Attention, (BATCH, ROWS, HEADS * DEPTH)),
    "rotated": (Rotated, (BATCH, ROWS, HEADS * DEPTH)),
    "windows apart": (lambda: Unfolded(2, 3), (BATCH, 3, 7, 9)),
    "windows that overlap": (lambda: Unfolded(3, 2), (BATCH, 3, 7, 9)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(gpu: SimulatedGPU, name: str) -> None:
    """A step of gradient descent beside torch's in float64."""
    torch.manual_seed(0)
    make, shape = CASES[name]
    module, x = make(), torch.randn(shape)
    before = {key: p.detach().double() for key, p in module.named_parameters()}
    twin = burn.compile(module, (x,), train=True)
    step = train.step(twin, lambda m, x: (m(x) ** 2).sum(), optim.SGD(twin, lr=1.0), device="cuda")
    step(burn.tensor(x.numpy()).to("cuda"))
    reference = module.double()
    (reference(x.double()) ** 2).sum().backward()
    parameters = dict(twin.named_parameters())
    for key, p in reference.named_parameters():
        want = p.grad
        assert want is not None
        moved = before[key].numpy() - parameters[key].numpy().astype("f8")
        np.testing.assert_allclose(moved, want.numpy(), rtol=2e-4, atol=2e-4 * float(want.abs().max()))
    kinds = [kernel.kind for kernel in step.executable.artefact.kernels]
    assert "scatter" not in kinds
    if name == "attention":
        copies = [
            k.name for k in step.executable.artefact.kernels if k.kind == "loop" and "transpose" in k.name.split("+")
        ]
        joining = [k.kind for k in step.executable.artefact.kernels if "concat" in k.name.split("+")]
        assert copies == [] and not joining  # the kernels of the backward pass write into one tensor
        assert kinds.count("attention_gradient") == 3


class Separate(torch.nn.Module):
    """Three projections of a layer's result, as transformers writes them, without attention."""

    def __init__(self) -> None:
        super().__init__()
        width = HEADS * DEPTH
        self.first, self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.out(self.q(x) * self.k(x) + self.v(x))


def test_separate_projections_in_half_precision(gpu: SimulatedGPU) -> None:
    """Of three layers there are three matmuls and their gradients, without that of the input."""
    torch.manual_seed(0)
    x = torch.randn(BATCH, ROWS, HEADS * DEPTH)
    twin = burn.compile(Separate(), (x,), train=True)
    step = train.step(
        twin, lambda m, x: (m(x) ** 2).sum(), optim.SGD(twin, lr=1.0), device="cuda", precision="bfloat16"
    )
    step(burn.tensor(x.numpy()).to("cuda"))
    kinds = [kernel.kind for kernel in step.executable.artefact.kernels]
    assert kinds.count("contract") == 3 + 3 + 2
