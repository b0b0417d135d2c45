"""F.pad with mode circular, of one to three axes."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import burn


class Padded(torch.nn.Module):
    def __init__(self, pads: tuple[int, ...]) -> None:
        super().__init__()
        self.pads = pads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, self.pads, mode="circular")


@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((2, 3, 9), (2, 1)),
        ((2, 3, 9), (9, 0)),
        ((2, 3, 5, 7), (3, 3, 2, 5)),
        ((2, 3, 5, 7), (0, 3, -1, 2)),
        ((2, 3, 5, 7), (-2, -1, 0, 0)),
        ((1, 2, 3, 4, 5), (1, 2, 0, 3, 2, 1)),
        ((1, 1, 1, 1), (1, 1, 1, 1)),
    ],
)
def test_values(shape: tuple[int, ...], pads: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    module = Padded(pads)
    torch.testing.assert_close(burn.compile(module, (x,))(x), module(x), rtol=0, atol=0)
