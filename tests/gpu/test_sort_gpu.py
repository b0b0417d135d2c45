"""Sorting on a real GPU: rows that one block ranks, rows of many blocks, and rows of unknown length. Skipped without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.dialect.types import numpy_dtype

pytest.importorskip("triton")

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-45, -np.nan]


def drawn(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    data = np.random.default_rng(shape[-1])
    if "float" not in dtype:
        words = data.integers(0, 1 << 62, shape) * 2 + data.integers(0, 2, shape)
        return (words % 2 == 0) if dtype == "bool" else words.astype(numpy_dtype(dtype))
    x = data.standard_normal(shape) * np.exp(data.standard_normal(shape) * 4)
    return np.where(data.random(shape) < 0.1, data.choice(SPECIAL, shape), x).astype(numpy_dtype(dtype))


def check(x: np.ndarray, descending: bool, dynamic: Any = None, *others: np.ndarray) -> None:
    def function(x: Any) -> Any:
        return ops.sort(x, axis=1, descending=descending)

    made = {d: burn.compile(function, (x,), dynamic, cache=False, device=d) for d in ("cuda", "cpu")}
    assert not [k for k in made["cuda"].artefact.kernels if k.kind == "host"]
    for given in (x, *others):
        for _ in range(2):  # the second run is recorded
            for ours, theirs in zip(made["cuda"](given), made["cpu"](given), strict=True):
                assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "bfloat16", "int64", "uint64", "int32", "uint32", "int16", "uint8", "bool"],
)
@pytest.mark.parametrize("shape", [(2, 70001), (5, 3000)])
def test_element_types(dtype: str, shape: tuple[int, int]) -> None:
    check(drawn(dtype, shape), shape[0] == 2)


@pytest.mark.parametrize("shape", [(1, 300_001), (300, 257), (3, 4096), (3, 4097)])
def test_lengths(shape: tuple[int, int]) -> None:
    check(drawn("float32", shape), False)


def test_named_sizes() -> None:
    others = [drawn("float32", shape) for shape in ((3, 1), (0, 5), (2, 0), (1, 200_001), (64, 256), (2, 2048))]
    check(drawn("float32", (3, 5000)), True, {"x": {0: "rows", 1: "n"}}, *others)
