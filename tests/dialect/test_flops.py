"""`Op.flops`: the one count of floating-point operations, which profiles, passes and `burn inspect` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from burn import ops
from burn.cli.facts import Facts
from burn.dialect.dims import symbol
from burn.exporters.python.graph import read
from burn.tracing.trace import trace

N = symbol("n")
UPSAMPLING: dict[str, Any] = {"strides": (2, 2), "dilations": (1, 1), "low": (1, 0), "high": (0, 1), "extra": (0, 0)}


@pytest.mark.parametrize(
    ("function", "types", "expected"),
    [
        (lambda x, w: x @ w, ("float32[n, 5, 7]", "float32[7, 3]"), N * 5 * 7 * 3 * 2),
        (
            lambda x, w: ops.conv_transpose(x, w, **UPSAMPLING, groups=2),
            ("float32[n, 4, 5, 3]", "float32[4, 3, 2, 3]"),
            N * 4 * 5 * 3 * (3 * 2 * 3) * 2,
        ),
        (
            lambda x, w, r: ops.lstm(x, w, r, None, None, None, None, None, direction="bidirectional")[0],
            ("float32[9, n, 5]", "float32[2, 12, 5]", "float32[2, 12, 3]"),
            N * 9 * 2 * 12 * (5 + 3) * 2,
        ),
        (
            lambda x, w, r: ops.gru(x, w, r, None, None, None)[0],
            ("float32[9, n, 5]", "float32[1, 9, 5]", "float32[1, 9, 3]"),
            N * 9 * 9 * (5 + 3) * 2,
        ),
        (
            lambda q, k, v: ops.attention(q, k, v, scale=0.5),
            ("float32[n, 2, 5, 4]", "float32[n, 2, 7, 4]", "float32[n, 2, 7, 3]"),
            N * 2 * 5 * 7 * (4 + 3) * 2,
        ),
        (lambda x: ops.exp(x), ("float32[n, 5]",), 0),
    ],
)
def test_facts_count_the_flops_of_ops(function: Callable[..., Any], types: tuple[str, ...], expected: Any) -> None:
    program = trace(function, {f"x{i}": type_ for i, type_ in enumerate(types)})
    assert Facts.of(read(program)).flops == (expected if isinstance(expected, int) else str(expected))
