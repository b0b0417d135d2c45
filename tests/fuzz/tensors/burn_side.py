"""The meaning of `m` in burn: its functions, operators and indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import burn
from tests.fuzz.tensors.numpy_side import BY_KEY, OPERATORS
from tests.fuzz.tensors.shared import Side


class Burn(Side):
    """burn as a side. eager: the number of calls after which recorded ops are computed, so that lazy graphs vary."""

    def __init__(self, eager: int = 0) -> None:
        self._eager, self._calls = eager, 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(burn, name)
        return lambda *args, **options: self._seen(function(*args, **options))

    def _seen(self, result: Any) -> Any:
        self._calls += 1
        if self._eager and self._calls % self._eager == 0 and isinstance(result, burn.Tensor):
            result.evaluate()
        return result

    def row(self, key: str, *args: Any) -> list[Any]:
        row = BY_KEY[key]
        result = row.use(getattr(getattr(burn, row.where) if row.where else burn, row.name), *args)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def op(self, symbol: str, left: Any, right: Any) -> Any:
        return self._seen(OPERATORS[symbol](left, right))

    def get(self, x: Any, index: Any) -> Any:
        return self._seen(x[index])

    def at(self, x: Any, index: Any, how: str, values: Any) -> Any:
        return self._seen(getattr(x.at[index], how)(values))

    def softmax_by_hand(self, x: Any, axis: int) -> Any:
        powers = (x - x.max(axis, keepdims=True)).exp()
        return powers / powers.sum(axis, keepdims=True)

    def ints(self, values: Any) -> np.ndarray:
        return np.array(values, np.int64)

    def held(self, values: Any) -> burn.Tensor:
        return burn.constant(np.array(values, np.int64))

    def bools(self, values: Any) -> np.ndarray:
        return np.array(values, bool)
