"""The exponential of matrices: scaling by a power of two, a rational approximation, and squaring.

Source: Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from burn.dialect import ops as build
from burn.tensors.base import made
from burn.tensors.control import loop
from burn.tensors.creation import eye

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600, 670442572800,
    33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
"""The coefficients of the approximation of degree 13, divided by the first below: float32 does not hold them otherwise."""
LARGEST = 4.0
"""The norm up to which the approximation is exact to rounding: 5.37 in double precision."""
MOST = 1100
"""More squarings than the exponents of double precision: matrices that need them have no finite exponential."""


def exponential(x: Tensor, solve: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """exp(x) of matrices [batch, n, n]; NaN for those with infinities or NaNs. solve(a, b) gives the y with a @ y = b."""
    n = x.type.shape[1]
    norm = x.abs().sum(1).norm(float("inf"), 1).reshape(-1, 1, 1)
    sound = norm.isfinite()
    count = ((sound & (norm > LARGEST)).where(norm, LARGEST) / LARGEST).log2().ceil().clip(0, MOST)
    # Two factors: a single one would vanish in float32 before the count ends.
    half = (count * 0.5).floor()
    x = sound.where(x, 0.0) * (-half).exp2() * (half - count).exp2()
    result = solve(*_rational(x, eye(n, dtype=x.dtype)))
    count = count.astype("int64")
    most = made(build.reduce(count.value, kind="max", axes=(0, 1, 2), keepdims=False)).maximum(0)

    def square(step: Tensor, going: Tensor, power: Tensor) -> tuple:
        return going, (step < count).where(power @ power, power)

    (result,) = loop(square, (result,), trips=most)
    return sound.where(result, float("nan"))


def _rational(x: Tensor, one: Tensor) -> tuple[Tensor, Tensor]:
    """v - u and v + u of the approximation (v + u) / (v - u), with odd powers of x in u and even ones in v."""
    c = [each / PADE[0] for each in PADE]
    second = x @ x
    fourth = second @ second
    sixth = fourth @ second
    high = sixth @ (sixth * c[13] + fourth * c[11] + second * c[9])
    u = x @ (high + sixth * c[7] + fourth * c[5] + second * c[3] + one * c[1])
    high = sixth @ (sixth * c[12] + fourth * c[10] + second * c[8])
    v = high + sixth * c[6] + fourth * c[4] + second * c[2] + one * c[0]
    return v - u, v + u
