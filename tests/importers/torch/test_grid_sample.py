"""grid_sample of images and volumes, against torch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

import burn

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
CASES = [
    (rank, mode, padding, align)
    for rank, mode, padding, align in itertools.product((2, 3), MODES, PADDINGS, (False, True))
    if rank == 2 or mode != "bicubic"
]


class Sampled(torch.nn.Module):
    def __init__(self, mode: str, padding: str, align: bool) -> None:
        super().__init__()
        self.options = {"mode": mode, "padding_mode": padding, "align_corners": align}

    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return functional.grid_sample(x, grid, **self.options)  # type: ignore[arg-type]


def given(rank: int, n: int = 2, channels: int = 3, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    draws = torch.Generator().manual_seed(rank + channels)
    sizes, positions = (5, 7, 4)[:rank], (6, 3, 5)[:rank]
    x = torch.randn(n, channels, *sizes, generator=draws, dtype=dtype)
    return x, torch.rand(n, *positions, rank, generator=draws, dtype=dtype) * 3 - 1.5


@pytest.mark.parametrize(("rank", "mode", "padding", "align"), CASES)
def test_modes(rank: int, mode: str, padding: str, align: bool) -> None:
    x, grid = given(rank)
    module = Sampled(mode, padding, align)
    got = burn.compile(module, (x, grid))(x, grid)
    np.testing.assert_allclose(got, module(x, grid), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rank", [2, 3])
def test_one_channel_and_special_coordinates(rank: int) -> None:
    """Corners, the centre, and far outside."""
    x, grid = given(rank, channels=1, dtype=torch.float32)
    flat = grid.view(-1, rank)
    flat[0], flat[1], flat[2], flat[3], flat[4] = 1.0, -1.0, 0.0, 1e9, -1e30
    module = Sampled("bilinear", "zeros", True)
    np.testing.assert_allclose(burn.compile(module, (x, grid))(x, grid), module(x, grid), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rank", [2, 3])
def test_half_precision(rank: int) -> None:
    x, grid = (each.half() for each in given(rank))
    module = Sampled("bilinear", "border", False)
    want = module(x.float(), grid.float())
    got = burn.compile(module, (x, grid))(x, grid)
    assert str(got.dtype) in ("float16", "torch.float16")
    np.testing.assert_allclose(torch.as_tensor(got).float(), want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_batches_of_any_size(n: int) -> None:
    module = Sampled("bilinear", "zeros", False)
    compiled = burn.compile(module, given(2), dynamic={"x": {0: "n"}, "grid": {0: "n"}})
    x, grid = given(2, n=n)
    np.testing.assert_allclose(compiled(x, grid), module(x, grid), rtol=1e-9, atol=1e-9)


def test_gradients() -> None:
    """With a loss that burn differentiates itself."""
    x, grid = given(2)
    module = Sampled("bilinear", "reflection", False)
    twin = burn.compile(module, (x, grid), train=True)
    got = burn.grad(lambda a, b: (twin(a, b) ** 2).sum(), argnums=(0, 1))(
        burn.tensor(x.numpy()), burn.tensor(grid.numpy())
    )
    x.requires_grad_()
    grid.requires_grad_()
    (module(x, grid) ** 2).sum().backward()
    for mine, theirs in zip(got, (x.grad, grid.grad), strict=True):
        assert theirs is not None
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-7, atol=1e-9)
