"""Long entry functions become several. Here parts are a line or two long, so that short programs have many."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn.codegen.host import parts
from burn.compiler import executable
from burn.errors import RunError
from burn.runtime import Executable
from burn.tracing.trace import trace


def everything(x: burn.Tensor, table: burn.Tensor, at: burn.Tensor) -> list[burn.Tensor]:
    """Sizes that are read from data, a branch, a loop, matmuls, an index that may be wrong, functions of the library."""
    y = (x @ x.T).softmax(-1)
    (found,) = (x > 0).ravel().nonzero()
    total = burn.fori_loop(0, at.max() + 1, lambda i, s: s + (s * 2.0).sum(), y)
    either = burn.cond(x.sum() > 0, lambda: x * 2, lambda: x - 1)
    return [y, found * 2, table[at], total, either, x.sort(0)[0] * found.shape[0]]


def compiled() -> Executable:
    return executable(trace(everything, {"x": "float32[n, m]", "table": "float32[k, 3]", "at": "int64[n]"}))


def inputs(n: int, m: int) -> list[np.ndarray]:
    draw = np.random.default_rng(n)
    x = draw.standard_normal((n, m)).astype(np.float32)
    return [x, draw.standard_normal((5, 3)).astype(np.float32), draw.integers(0, 5, n)]


def test_a_short_function_is_left_alone_and_a_long_one_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    divide = parts.divide
    monkeypatch.setattr("burn.codegen.host.entry.divide", lambda *given: made.append(len(p := divide(*given))) or p)
    monkeypatch.setattr(parts, "LINES", 200)
    for number in (1, 30):
        executable(trace(lambda x, n=number: [(x * i).sort(0)[0] for i in range(n)], {"x": "float32[n, 2]"}))
    assert made[0] == 1 and made[-1] > 1


@pytest.mark.parametrize("lines", (1, 50))
def test_parts_compute_the_same(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compiled()
    monkeypatch.setattr(parts, "LINES", lines)
    divided = compiled()
    for n, m in ((3, 4), (1, 1), (7, 2), (2, 5)):
        for got, wanted in zip(divided(*inputs(n, m)), whole(*inputs(n, m)), strict=True):
            np.testing.assert_array_equal(got, wanted)
    x, table, at = inputs(3, 4)
    with pytest.raises(RunError, match="index"):  # in the middle of it
        divided(x, table, at + 5)
    assert len(divided(x, table, at)) == 6
