"""The loss of several labels per row against eager mode. A -1 ends a row's labels, which torch's decomposition overlooks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import burn

ROWS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


class Loss(torch.nn.Module):
    def __init__(self, reduction: str) -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.multilabel_margin_loss(x, target, reduction=self.reduction)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_labels_behind_the_first_minus_one_do_not_count(reduction: str) -> None:
    x = torch.from_numpy(ROWS)
    target = torch.tensor([[0, 1, -1, 2], [-1, 2, 1, 0], [1, 1, -1, 0]])
    run = burn.compile(Loss(reduction), (x, target))
    for labels in (target, torch.tensor([[3, -1, -1, -1], [0, 1, 2, 3], [2, -1, 3, -1]])):
        wanted = F.multilabel_margin_loss(x.double(), labels, reduction=reduction)
        np.testing.assert_allclose(run(ROWS, labels.numpy()), wanted, rtol=1e-5, atol=1e-6)


def test_one_row() -> None:
    x, target = torch.from_numpy(ROWS[0]), torch.tensor([2, -1, 0, 1])
    run = burn.compile(Loss("mean"), (x, target))
    np.testing.assert_allclose(run(ROWS[0], target.numpy()), F.multilabel_margin_loss(x, target), rtol=1e-5)
