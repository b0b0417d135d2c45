"""Adaptive max pools without indices: maxima along one axis after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

import burn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Pool(torch.nn.Module):
    def __init__(self, size: tuple[int, ...]) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Any) -> Any:
        return getattr(F, f"adaptive_max_pool{len(self.size)}d")(x, self.size)


def image(*shape: int) -> Any:
    """Numbers with a NaN and an infinity among them."""
    torch.manual_seed(0)
    x = torch.randn(shape)
    x.view(-1)[3], x.view(-1)[-1] = torch.nan, -torch.inf
    return x


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((2, 3, 17), (5,)),
        ((2, 3, 17), (17,)),
        ((1, 1, 5), (8,)),  # parts that share elements
        ((2, 3, 56, 41), (5, 7)),
        ((2, 3, 16, 24), (4, 8)),
        ((3, 13, 9), (1, 3)),  # without a batch
        ((2, 3, 13, 9), (1, 1)),
        ((1, 2, 5, 7, 9), (2, 3, 4)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_maxima(shape: tuple[int, ...], size: tuple[int, ...], dtype: str) -> None:
    x = image(*shape).to(getattr(torch, dtype))
    module = Pool(size)
    got = torch.as_tensor(burn.compile(module, (x,))(x))
    torch.testing.assert_close(got, module(x), rtol=0, atol=0, equal_nan=True)


def test_sizes_that_vary() -> None:
    module = Pool((3, 4))
    compiled = burn.compile(module, (image(2, 3, 10, 12),), dynamic={"x": {0: "n", 2: "h", 3: "w"}})
    for shape in ((2, 3, 10, 12), (5, 3, 7, 31), (1, 3, 3, 4)):
        x = image(*shape)
        np.testing.assert_array_equal(np.asarray(compiled(x)), module(x).numpy())
