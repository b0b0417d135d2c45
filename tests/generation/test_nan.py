"""Scores of NaN raise an error instead of choosing token 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import RunError


class Words(nn.Module):
    """Every token's scores are its row of a table."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = nn.Embedding(len(table), table.shape[1])
        self.table.weight.assign(table.astype(np.float32))

    def forward(self, x: Any) -> Any:
        return self.table(x)


def _table() -> np.ndarray:
    """1 follows 0, 2 follows 1, ..., 0 follows 4."""
    return np.roll(np.eye(5), 1, 1) * 50.0


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 1.0, "seed": 0}, {"temperature": 0.5, "top_k": 2, "top_p": 0.9, "seed": 1}]
)
def test_scores_that_choose_nothing(options: dict[str, Any]) -> None:
    assert burn.generate(Words(_table()), np.array([[0, 1]]), 2, cache=False, **options)[0, -2:].tolist() == [2, 3]
    for spoiled in (np.nan, -np.inf):
        table = _table()
        table[3] = spoiled
        if np.isnan(spoiled):
            table[3] = 1.0
            table[3, 2] = np.nan
        with pytest.raises(RunError, match="no token 3 for text 2"):
            burn.generate(Words(table), np.array([[3, 4], [0, 1]]), 4, cache=False, **options)
        ended = burn.generate(Words(table), np.array([[0, 1]]), 4, cache=False, stop=3, **options)
        assert 3 in ended
