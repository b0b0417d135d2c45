"""Recurrent layers on a GPU: loops whose slices are read by the counter, in calls that are recorded."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

import burn
from burn import optim, train
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.runtime.simulation import simulation

STEPS, BATCH, INPUTS, HIDDEN = 11, 3, 5, 7
CALLS = 4
"""The first runs kernel by kernel, the second is recorded."""


class Network(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(torch.nn, kind)(INPUTS, HIDDEN, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_steps_are_recorded_and_right(gpu: SimulatedGPU, kind: str) -> None:
    """Losses of steps beside those of torch in float64. A call makes no work on the host."""
    torch.manual_seed(0)
    module = Network(kind).train()
    x = torch.randn(STEPS, BATCH, INPUTS)
    twin = burn.compile(module, (x,), train=True)
    step = train.step(twin, lambda m, x: (m(x) ** 2).mean(), optim.SGD(twin, lr=0.5), device="cuda")
    sent = burn.tensor(x.numpy()).to("cuda")
    gc.collect()  # an earlier test's step may hold graphs
    graphs = simulation().alive("graph")
    losses = [float(step(sent)) for _ in range(CALLS)]
    assert simulation().alive("graph") > graphs
    reference = module.double()
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.5)
    for loss in losses:
        optimizer.zero_grad()
        want = (reference(x.double()) ** 2).mean()
        want.backward()
        optimizer.step()
        np.testing.assert_allclose(loss, want.item(), rtol=2e-5)
