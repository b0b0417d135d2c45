"""Functions of complex numbers against numpy in complex128: drawn numbers, branch cuts, signed zeros, infinities and NaN."""

from typing import Any

import numpy as np
import pytest

import burn

NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
QUICK = ("log", "sqrt", "abs", "angle", "conj", "conjugate")
OTHERS = ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", *NAMES)
CUTS = ("log", "sqrt", "angle", "conj", "conjugate", *NAMES)
PARTS = (0.0, -0.0, 1.0, 0.5, -2.5, 1e200, np.inf, -np.inf, np.nan)


def close(got: Any, want: Any, signs: bool) -> Any:
    """Elements that agree to 4 units of 1e-15, NaN with NaN. signs: zeros have the same sign."""
    with np.errstate(all="ignore"):
        fine = (np.abs(got - want) <= 4e-15 * np.maximum(np.abs(want), 1e-300)) | (got == want)
        alike = (np.signbit(got) == np.signbit(want)) | (want != 0) if signs else True
    return (fine & alike) | (np.isnan(got) & np.isnan(want))


def check(names: Any, points: Any, device: str) -> None:
    compiled = burn.jit(lambda z: [getattr(z, name)() for name in names], device=device)
    for name, result in zip(names, compiled(burn.tensor(points)), strict=True):
        got = result.numpy()
        with np.errstate(all="ignore"):
            want = getattr(np, NAMES.get(name, name))(points)
        for part in ("real", "imag") if np.iscomplexobj(want) else ("real",):
            a, b = getattr(got, part), getattr(want, part)
            # beside a NaN the other part's sign is unspecified, and results of numpy for large angles differ
            bad = ~close(a, b, name in CUTS)
            assert not bad.any(), (name, part, points[bad][:5], got[bad][:5], want[bad][:5])


def special(parts: Any = PARTS) -> Any:
    return np.array([complex(a, b) for a in parts for b in parts])


def test_quick_functions_at_special_points() -> None:
    check(QUICK, special((0.0, -0.0, -2.5, np.inf, np.nan)), "reference")


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_functions_at_special_points(name: str) -> None:
    check((name,), special(), "reference")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OTHERS, "expm1", "log1p", "reciprocal"])
def test_functions_of_drawn_numbers(name: str) -> None:
    rng = np.random.default_rng(3)
    points = (rng.normal(size=200) + 1j * rng.normal(size=200)) * 10.0 ** rng.integers(-3, 2, size=200)
    compiled = burn.jit(lambda z: getattr(z, name)())
    got = compiled(burn.tensor(points)).numpy()
    want = getattr(np, NAMES.get(name, name))(points)
    # numpy's log1p cancels
    tolerance = 1e-13 if name != "log1p" else 1e-9
    np.testing.assert_allclose(got, want, rtol=tolerance)


def test_drawn_numbers_in_single_precision() -> None:
    rng = np.random.default_rng(4)
    points = (rng.normal(size=65) + 1j * rng.normal(size=65)).astype(np.complex64)
    compiled = burn.jit(lambda z: [z.exp(), z * z, 1 / z, z**3, z.abs()])
    wide = points.astype(np.complex128)
    expected = [np.exp(wide), wide * wide, 1 / wide, wide**3, np.abs(wide)]
    for got, want in zip(compiled(burn.tensor(points)), expected, strict=True):
        assert got.dtype == ("complex64" if np.iscomplexobj(want) else "float32")
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-6)
