"""The matrices of Winograd's convolution of tiles with three taps along each axis, by A. L. Toom and S. A. Cook.

A tile of `tile` results and the taps are polynomials. They are evaluated at `tile` + 1 points and infinity, multiplied, and
interpolated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

TAPS = 3

POINTS: Mapping[int, tuple[Fraction, ...]] = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}
"""The evaluation points besides infinity, by the number of results. All derived numbers except the filter's are exact in
float32; for two results those of pixels and results are 0, 1 and -1."""

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Transforms:
    """The convolution of pixels d with taps g is results * ((filter * g) . (pixels * d)), for `tile` results. pixels: [count,
    count]. filter: [count, 3]. results: [tile, count]."""

    tile: int
    pixels: Matrix
    filter: Matrix
    results: Matrix

    @property
    def count(self) -> int:
        """The number of points along each axis."""
        return len(self.pixels)


@lru_cache
def transforms(tile: int) -> Transforms:
    """The matrices for tiles of so many results along each axis: a key of `POINTS`."""
    points = POINTS[tile]
    pixels, taps = [], []
    for point in points:
        others = [p for p in points if p != point]
        scale = Fraction(1)
        for other in others:
            scale *= point - other
        pixels.append([*_polynomial(others), Fraction(0)])
        taps.append([point**i / scale for i in range(TAPS)])
    pixels.append(_polynomial(list(points)))
    taps.append([Fraction(0)] * (TAPS - 1) + [Fraction(1)])
    results = [[p**i for p in points] + [Fraction(int(i == tile - 1))] for i in range(tile)]
    return Transforms(tile, _floats(pixels), _floats(taps), _floats(results))


def flat(matrix: Matrix) -> tuple[float, ...]:
    """The numbers, row by row."""
    return tuple(number for row in matrix for number in row)


def transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def _floats(matrix: list[list[Fraction]]) -> Matrix:
    return tuple(tuple(map(float, row)) for row in matrix)


def _polynomial(roots: list[Fraction]) -> list[Fraction]:
    """The coefficients of the polynomial with these roots, the lowest first."""
    found = [Fraction(1)]
    for root in roots:
        found = [a - root * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found
