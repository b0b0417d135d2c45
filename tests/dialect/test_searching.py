"""Binary search of sorted rows: sizes around the length from which it searches, NaN, equal elements, rows of their own."""

from typing import Literal

import numpy as np
import pytest
import torch

import burn
from burn.dialect.types import type_of
from burn.tracing.trace import trace


def _values(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        values = np.round(generator.standard_normal(shape) * 8).astype(dtype) / 4  # some are equal
        values.reshape(-1)[::7] = generator.choice([np.nan, np.inf, -np.inf, -0.0], values.reshape(-1)[::7].shape)
        return values
    return generator.integers(0, 90, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int8", "uint8"])
@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 100, 127, 128, 129, 1000])
@pytest.mark.parametrize("side", ["left", "right"])
def test_positions_are_those_of_numpy(n: int, dtype: str, side: Literal["left", "right"]) -> None:
    generator = np.random.default_rng(n)
    row, values = np.sort(_values(generator, (n,), dtype)), _values(generator, (3, 37), dtype)
    got = burn.jit(lambda row, values: row.searchsorted(values, side))(row, values)
    np.testing.assert_array_equal(np.asarray(got), np.searchsorted(row, values, side))


@pytest.mark.parametrize("n", [5, 64, 65, 333])
@pytest.mark.parametrize("right", [False, True])
def test_rows_of_their_own_are_those_of_torch(n: int, right: bool) -> None:
    rows = torch.randn(2, 3, n).mul(4).round().div(2).sort(-1)[0]
    values = torch.randn(2, 3, 41).mul(4).round().div(2)
    values[0, 0, :3] = torch.tensor([float("inf"), float("-inf"), float("nan")])

    class Search(torch.nn.Module):
        def forward(self, rows: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.searchsorted(rows, values, right=right), torch.bucketize(
                values, rows[1, 2], right=right, out_int32=True
            )

    found, bucket = burn.compile(Search(), (rows, values))(rows, values)
    want, wanted_bucket = Search()(rows, values)
    assert torch.equal(torch.as_tensor(found), want)
    assert torch.equal(torch.as_tensor(bucket), wanted_bucket)


def test_long_rows_are_not_compared_as_a_whole() -> None:
    program = trace(lambda row, values: row.searchsorted(values), {"row": "float32[5000]", "values": "float32[70]"})
    sizes = [type_of(result).shape for operation in program.block.operations for result in operation.results]
    assert (70,) in sizes
    assert (70, 5000) not in sizes
