"""GELU in scalar expressions, as `Gelu.decompose` writes it. A target may have one kernel function for all of it."""

from __future__ import annotations

import math

from burn.kernels.body import Apply, Const, Scalar


def gelu_of(node: Scalar) -> tuple[Scalar, str] | None:
    """(x, the function that the formula has, "erf" or "tanh") if the node is GELU of x in float32."""
    match node:
        case Apply(
            "float32",
            "mul",
            (
                Apply(function="mul", args=(x, Const(value=0.5))),
                Apply(function="add", args=(Apply(function=("erf" | "tanh") as function, args=(y,)), Const(value=1))),
            ),
        ) if _is_argument(y, x, function):
            return x, function
    return None


def _is_argument(y: Scalar, x: Scalar, function: str) -> bool:
    """True if y is the argument of erf or tanh in GELU of x."""
    if function == "erf":
        return _scaled(y, math.sqrt(0.5)) is x
    match _scaled(y, math.sqrt(2 / math.pi)):
        case Apply(function="add", args=(first, cubic)) if first is x:
            match _scaled(cubic, 0.044715):
                case Apply(function="mul", args=(Apply(function="mul", args=(a, b)), c)):
                    return a is x and b is x and c is x
    return False


def _scaled(node: Scalar | None, number: float) -> Scalar | None:
    """The other factor of a multiplication by a number."""
    match node:
        case Apply(function="mul", args=(other, Const(value=value))) if math.isclose(value, number, rel_tol=1e-6):
            return other
    return None
