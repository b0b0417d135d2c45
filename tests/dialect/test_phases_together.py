"""Transposed convolutions with few outputs, whose phases are one convolution, beside sums in float64."""

from __future__ import annotations

import numpy as np
import pytest

from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.contraction import Conv
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.passes import pipeline

Row = tuple[int, ...]

# channels, outputs, sizes, kernel, strides, low, high, extra
CASES: list[tuple[int, int, Row, Row, Row, Row, Row, Row]] = [
    (5, 3, (7, 9), (4, 4), (2, 2), (1, 1), (1, 1), (0, 0)),
    (8, 8, (11,), (3,), (4,), (1,), (1,), (3,)),  # of four phases one is zeros
    (3, 1, (5, 1), (6, 2), (3, 2), (2, 0), (1, 0), (0, 1)),
    (4, 2, (6, 5), (1, 4), (2, 1), (0, 3), (0, 0), (1, 0)),  # no stride along an axis
    (2, 32, (3, 4, 2), (2, 4, 1), (2, 2, 2), (0, 1, 0), (1, 0, 0), (0, 0, 0)),
    (6, 5, (1,), (8,), (4,), (0,), (9,), (2,)),
    (33, 16, (13, 3), (2, 2), (2, 2), (1, 0), (0, 1), (1, 1)),
]


def expected(x: np.ndarray, weight: np.ndarray, strides: Row, low: Row, high: Row, extra: Row) -> np.ndarray:
    """Adds each element times the kernel at its position."""
    kernel, sizes = weight.shape[2:], x.shape[2:]
    whole = [(d - 1) * s + k + e for d, s, k, e in zip(sizes, strides, kernel, extra, strict=True)]
    total = np.zeros((len(x), weight.shape[1], *whole))
    for tap in np.ndindex(*kernel):
        at = tuple(slice(t, t + (d - 1) * s + 1, s) for t, d, s in zip(tap, sizes, strides, strict=True))
        terms = np.tensordot(x.astype("f8"), weight[(slice(None), slice(None), *tap)].astype("f8"), (1, 0))
        total[(slice(None), slice(None), *at)] += np.moveaxis(terms, -1, 1)
    ends = (slice(p, n - q) for p, q, n in zip(low, high, whole, strict=True))
    return total[(slice(None), slice(None), *ends)]


def programmed(case: tuple[int, int, Row, Row, Row, Row, Row, Row], sizes: tuple[Dim, ...], constant: bool) -> Program:
    channels, outputs, _, kernel, strides, low, high, extra = case
    weight = TensorType("float32", (channels, outputs, *kernel))
    inputs = [("x", TensorType("float32", (symbol("n"), channels, *sizes)))]
    program = Program.create(inputs if constant else [*inputs, ("w", weight)])
    with program.building("up"):
        w = program.inputs[-1]
        if constant:
            w = ops.weight(key=program.weights.add_array(drawn(case)[1], "w"), shape=weight.shape, dtype="float32")
        options = {"strides": strides, "dilations": (1,) * len(kernel), "low": low, "high": high, "extra": extra}
        y = ops.conv_transpose(program.inputs[0], w, **options)
    return program.finish([("y", y)])


def drawn(case: tuple[int, int, Row, Row, Row, Row, Row, Row], batch: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    channels, outputs, sizes, kernel, *_ = case
    weight = rng.standard_normal((channels, outputs, *kernel), np.float32)
    return rng.standard_normal((batch, channels, *sizes), np.float32), weight


@pytest.mark.parametrize("named", [False, True], ids=["", "named"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results(case: tuple[int, int, Row, Row, Row, Row, Row, Row], named: bool) -> None:
    sizes: tuple[Dim, ...] = tuple(symbol(f"d{i}") for i in range(len(case[2]))) if named else case[2]
    run = executable(programmed(case, sizes, constant=not named))
    for batch in (0, 1, 2):
        x, weight = drawn(case, batch)
        want = expected(x, weight, *case[4:])
        got = run(x, weight) if named else run(x)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_convolution(case: tuple[int, int, Row, Row, Row, Row, Row, Row]) -> None:
    program = programmed(case, case[2], True)
    with context():
        pipeline.run(pipeline.parse("decompose"), program)
        assert sum(isinstance(operation.opview, Conv) for operation in program.block.operations) == 1


def test_what_is_not_finite_stays_where_it_is() -> None:
    """No output sums an element that its phase does not read."""
    case = CASES[1]
    x, weight = drawn(case, 1)
    x[0, 0, 4] = np.inf
    with np.errstate(invalid="ignore"):
        want = expected(x, weight, *case[4:])
    np.testing.assert_array_equal(np.isfinite(executable(programmed(case, case[2], True))(x)), np.isfinite(want))
    assert np.isfinite(want).mean() > 0.9
