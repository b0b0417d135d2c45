"""Elementwise functions of the array API standard: methods of `Tensor` with the standard's names and positional arguments.

A function of two operands takes a Python number for one of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from burn.tensors import Tensor, constant
from burn.tensors.promotion import first_operand

_X = inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY, annotation="Tensor")
_PAIR = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY, annotation="Tensor | float") for n in ("x1", "x2")]


def _named(function: Callable[..., Any], name: str, method: str, parameters: list[inspect.Parameter]) -> None:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "burn.array_api"
    function.__doc__ = (getattr(Tensor, method).__doc__ or "").replace("self", "x1").replace("other", "x2")
    function.__signature__ = inspect.Signature(parameters, return_annotation="Tensor")  # type: ignore[attr-defined]


def _unary(name: str, method: str = "") -> Callable[[Tensor], Tensor]:
    def function(x: Tensor, /) -> Tensor:
        return getattr(constant(x), method or name)()

    _named(function, name, method or name, [_X])
    return function


def _binary(name: str, method: str = "") -> Callable[[Tensor | float, Tensor | float], Tensor]:
    def function(x1: Any, x2: Any, /) -> Tensor:
        return getattr(first_operand(x1, (x2,)), method or name)(x2)

    _named(function, name, method or name, _PAIR)
    return function


abs = _unary("abs")
acos = _unary("acos")
acosh = _unary("acosh")
add = _binary("add")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atan2 = _binary("atan2")
atanh = _unary("atanh")
bitwise_and = _binary("bitwise_and")
bitwise_invert = _unary("bitwise_invert", "bitwise_not")
bitwise_left_shift = _binary("bitwise_left_shift", "left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift", "right_shift")
bitwise_xor = _binary("bitwise_xor")
ceil = _unary("ceil")
conj = _unary("conj")
copysign = _binary("copysign")
cos = _unary("cos")
cosh = _unary("cosh")
divide = _binary("divide")
equal = _binary("equal")
exp = _unary("exp")
expm1 = _unary("expm1")
floor = _unary("floor")
floor_divide = _binary("floor_divide")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
hypot = _binary("hypot")
isfinite = _unary("isfinite")
isinf = _unary("isinf")
isnan = _unary("isnan")
less = _binary("less")
less_equal = _binary("less_equal")
log = _unary("log")
log1p = _unary("log1p")
log2 = _unary("log2")
log10 = _unary("log10")
logaddexp = _binary("logaddexp")
logical_and = _binary("logical_and")
logical_not = _unary("logical_not")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
maximum = _binary("maximum")
minimum = _binary("minimum")
multiply = _binary("multiply")
negative = _unary("negative")
nextafter = _binary("nextafter")
not_equal = _binary("not_equal")
pow = _binary("pow")
reciprocal = _unary("reciprocal")
remainder = _binary("remainder")
round = _unary("round")
sign = _unary("sign")
signbit = _unary("signbit")
sin = _unary("sin")
sinh = _unary("sinh")
sqrt = _unary("sqrt")
square = _unary("square")
subtract = _binary("subtract")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")


def positive(x: Tensor, /) -> Tensor:
    """+x: a tensor of the same elements."""
    return +constant(x)


def real(x: Tensor, /) -> Tensor:
    """The real parts of complex numbers; of real numbers, themselves."""
    return constant(x).real


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts of complex numbers; of real numbers, zeros."""
    return constant(x).imag


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Elements below min become min, then those above max become max; None is no bound. The element type is that of x."""
    given = constant(x)
    if min is None and max is None:
        return +given
    return given.clip(min, max).astype(given.dtype)
