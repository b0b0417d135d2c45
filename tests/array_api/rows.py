"""A rule for each function of the array API standard that draws its arguments: (arguments, keywords)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.array_api.draw import ALL, ANY, COMPLEX, FLOATS, INTS, REALS, SIGNED, UNSIGNED, Draw, Dtype

Call = tuple[list[Any], dict[str, Any]]
Rule = Callable[[Draw], Call]

RULES: dict[str, Rule] = {}
"""By name: "exp", "linalg.det"."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add


# ---- elementwise --------------------------------------------------------------------------------------------------------
def unary(dtypes: tuple[str, ...], special: bool = True, low: float = -4, high: float = 4) -> Rule:
    return lambda d: ([d.array(d.shape(), d.one(dtypes), special, low, high)], {})


def unary_or_complex(dtypes: tuple[str, ...]) -> Rule:
    """Complex numbers are finite: libraries disagree about parts and signs of multiplied infinities and NaN."""
    real, complex_ = unary(dtypes), unary(COMPLEX, special=False)
    return lambda d: complex_(d) if d.chance(0.25) else real(d)


def binary_or_complex(dtypes: tuple[str, ...]) -> Rule:
    real, complex_ = binary(dtypes), binary(COMPLEX, special=False)
    return lambda d: complex_(d) if d.chance(0.25) else real(d)


def binary(dtypes: tuple[str, ...], special: bool = True, low: float = -4, high: float = 4) -> Rule:
    return lambda d: (d.pair(dtypes, special, low=low, high=high), {})


for _name in (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log1p", "log2", "log10",
    "reciprocal", "sin", "sinh", "sqrt", "tan", "tanh",
):  # fmt: skip
    RULES[_name] = unary_or_complex(FLOATS)
for _name in ["ceil", "floor", "round", "trunc", "isfinite", "isinf", "isnan"]:
    RULES[_name] = unary(REALS)
for _name in ["positive", "sign", "square", "abs"]:
    RULES[_name] = unary_or_complex(REALS)
RULES |= {
    "negative": unary_or_complex((*SIGNED, *FLOATS)),
    "signbit": unary(FLOATS),
    "bitwise_invert": unary(("bool", *INTS)),
    "logical_not": unary(("bool",)),
    "conj": unary(COMPLEX),
    "real": unary(COMPLEX),
    "imag": unary(COMPLEX),
}
for _name in ("add", "subtract", "multiply"):
    RULES[_name] = binary_or_complex(REALS)
for _name in ["greater", "greater_equal", "less", "less_equal", "maximum", "minimum"]:
    RULES[_name] = binary(REALS)
for _name in ["equal", "not_equal"]:
    RULES[_name] = binary((*ALL, *COMPLEX))
RULES["divide"] = binary_or_complex(FLOATS)
for _name in ["atan2", "copysign", "hypot", "logaddexp", "nextafter"]:
    RULES[_name] = binary(FLOATS)
for _name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
    RULES[_name] = binary(("bool", *INTS))
for _name in ["logical_and", "logical_or", "logical_xor"]:
    RULES[_name] = binary(("bool",))


@rule("floor_divide", "remainder")
def division(d: Draw) -> Call:
    """Integers are not divided by 0."""
    operands = d.pair(REALS)
    divisor = operands[1]
    if np.asarray(divisor).dtype.kind in "iu":
        operands[1] = np.where(divisor == 0, 3, divisor).astype(divisor.dtype) if isinstance(divisor, np.ndarray) else 3
    return operands, {}


@rule("pow")
def power(d: Draw) -> Call:
    """Integers have exponents from 0 on."""
    if d.chance():
        return d.pair(FLOATS), {}
    operands = d.pair(INTS, special=False)
    return [operands[0], np.asarray(abs(operands[1])) if isinstance(operands[1], np.ndarray) else abs(operands[1])], {}


@rule("bitwise_left_shift", "bitwise_right_shift")
def shift(d: Draw) -> Call:
    """By less than the width."""
    return d.pair(INTS, special=False, low=0, high=2), {}


@rule("clip")
def clip(d: Draw) -> Call:
    dtype = d.one(REALS)
    shapes = d.broadcasting(3)
    low, high = (
        None
        if d.chance(0.2)
        else d.array(s, dtype, low=least, high=most)
        if d.chance()
        else d.array((), dtype, low=least, high=most).item()
        for s, (least, most) in zip(shapes[1:], ((-4, 0), (0, 4)), strict=True)
    )
    return [d.array(np.broadcast_shapes(*shapes), dtype, d.chance())], {"min": low, "max": high}


@rule("where")
def where(d: Draw) -> Call:
    return [
        d.array(d.shape(1, 2, (3, 1)), "bool"),
        *(np.reshape(x, ()) if np.size(x) == 1 else x for x in _small(d)),
    ], {}


def _small(d: Draw) -> list[Any]:
    dtype = d.one(ALL)
    return [d.array(d.one(((), (3,), (1,), (1, 1))), dtype, True) for _ in range(2)]


# ---- creation -------------------------------------------------------------------------------------------------------------
def dtype(d: Draw, dtypes: tuple[str, ...] = ANY) -> dict[str, Any]:
    return {"dtype": Dtype(d.one(dtypes))} if d.chance(0.7) else {}


@rule("zeros", "ones", "empty")
def filled(d: Draw) -> Call:
    shape = d.shape()
    return [shape[0] if len(shape) == 1 and d.chance() else shape], dtype(d)


@rule("full")
def full(d: Draw) -> Call:
    name = d.one(ANY)
    return [d.shape(), d.array((), name, low=0, high=4).item()], {"dtype": Dtype(name)} if d.chance() else {}


@rule("zeros_like", "ones_like", "empty_like")
def like(d: Draw) -> Call:
    return [d.array(d.shape(), d.one(ANY))], dtype(d)


@rule("full_like")
def full_like(d: Draw) -> Call:
    name = d.one(ANY)
    return [d.array(d.shape(), name), d.array((), name).item()], {}


@rule("arange")
def arange(d: Draw) -> Call:
    numbers = [float(n) / 2 if d.chance(0.3) else int(n) for n in d.rng.integers(-9, 9, 3)]
    numbers[2] = numbers[2] or 1
    return numbers[: int(d.rng.integers(1, 4))], dtype(d, (*FLOATS, "int64")) if any(
        isinstance(n, float) for n in numbers
    ) else dtype(d, (*SIGNED, *FLOATS))


@rule("linspace")
def linspace(d: Draw) -> Call:
    start, stop = (float(n) for n in d.rng.uniform(-9, 9, 2))
    return [start, stop, d.one((0, 1, 2, 5, 13))], {**dtype(d, FLOATS), "endpoint": d.chance()}


@rule("eye")
def eye(d: Draw) -> Call:
    return [d.one((0, 1, 3, 5)), d.one((None, 0, 1, 4))], {"k": int(d.rng.integers(-4, 5)), **dtype(d)}


@rule("meshgrid", "broadcast_arrays")
def grid(d: Draw) -> Call:
    name = d.one(ALL)
    return [d.array((d.one((0, 1, 3, 5)),), name) for _ in range(int(d.rng.integers(1, 4)))], {}


RULES["broadcast_arrays"] = lambda d: ([d.array(s, d.one(ALL)) for s in d.broadcasting(3)], {})


@rule("tril", "triu")
def triangle(d: Draw) -> Call:
    return [d.array(d.shape(2, 3), d.one(ALL), True)], {"k": int(d.rng.integers(-4, 5))}


@rule("asarray")
def asarray(d: Draw) -> Call:
    name = d.one(ALL)
    x = d.array(d.shape(0, 2, (1, 2, 3)), name, low=0)
    return [x.tolist()], {"dtype": Dtype(name)} if d.chance() else {}


@rule("from_dlpack")
def from_dlpack(d: Draw) -> Call:
    return [d.array(d.shape(), d.one(ALL), True)], {}


# ---- element types --------------------------------------------------------------------------------------------------------
@rule("astype")
def astype(d: Draw) -> Call:
    return [d.array(d.shape(), d.one(ALL), low=0), Dtype(d.one(ALL))], {"copy": d.chance()}


@rule("can_cast")
def can_cast(d: Draw) -> Call:
    kind = d.one((SIGNED, UNSIGNED, FLOATS, COMPLEX))
    return [Dtype(d.one(kind)), Dtype(d.one(kind))], {}


@rule("result_type")
def result_type(d: Draw) -> Call:
    kind = d.one((SIGNED, UNSIGNED, FLOATS, COMPLEX, ("bool",)))
    given = [Dtype(d.one(kind)) if d.chance() else d.array((2,), d.one(kind)) for _ in range(int(d.rng.integers(1, 4)))]
    number = {"u": 1, "i": 1, "f": 1.5, "c": 1j, "b": True}[kind[0][0]]
    return [*given, *([number] if d.chance(0.3) else [])], {}


@rule("isdtype")
def isdtype(d: Draw) -> Call:
    kinds = ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric")
    several = tuple(d.one(kinds) for _ in range(2))
    return [Dtype(d.one((*ALL, *COMPLEX))), d.one((d.one(kinds), several, Dtype(d.one(ALL))))], {}


@rule("finfo")
def finfo(d: Draw) -> Call:
    return [Dtype(d.one((*FLOATS, *COMPLEX))) if d.chance() else d.array((2,), d.one(FLOATS))], {}


@rule("iinfo")
def iinfo(d: Draw) -> Call:
    return [Dtype(d.one(INTS)) if d.chance() else d.array((2,), d.one(INTS))], {}


# ---- manipulation ---------------------------------------------------------------------------------------------------------
@rule("broadcast_shapes")
def broadcast_shapes(d: Draw) -> Call:
    return [*d.broadcasting(3)], {}


@rule("broadcast_to")
def broadcast_to(d: Draw) -> Call:
    a, b = d.broadcasting()
    return [d.array(a, d.one(ANY)), tuple(np.broadcast_shapes(a, b))], {}


@rule("concat")
def concat(d: Draw) -> Call:
    shape, name = d.shape(1), d.one(ANY)
    axis = d.axis(len(shape))
    parts = []
    for _ in range(int(d.rng.integers(1, 4))):
        own = list(shape)
        own[axis] = d.one((0, 1, 3))
        parts.append(d.array(tuple(own), name))
    return [parts], {"axis": None if d.chance(0.2) else axis}


@rule("stack")
def stack(d: Draw) -> Call:
    shape, name = d.shape(), d.one(ANY)
    return [[d.array(shape, name) for _ in range(int(d.rng.integers(1, 4)))]], {"axis": d.axis(len(shape) + 1)}


@rule("expand_dims")
def expand_dims(d: Draw) -> Call:
    shape = d.shape()
    return [d.array(shape, d.one(ANY)), d.axis(len(shape) + 1)], {}


@rule("flip")
def flip(d: Draw) -> Call:
    shape = d.shape()
    return [d.array(shape, d.one(ANY))], {"axis": d.axes(len(shape))}


@rule("moveaxis")
def moveaxis(d: Draw) -> Call:
    shape = d.shape(1)
    rank = len(shape)
    if d.chance():
        return [d.array(shape, d.one(ANY)), d.axis(rank), d.axis(rank)], {}
    n = int(d.rng.integers(rank + 1))
    return [d.array(shape, d.one(ANY)), *(tuple(int(a) for a in d.rng.permutation(rank)[:n]) for _ in range(2))], {}


@rule("permute_dims")
def permute_dims(d: Draw) -> Call:
    shape = d.shape()
    return [d.array(shape, d.one(ANY)), tuple(int(a) for a in d.rng.permutation(len(shape)))], {}


@rule("repeat")
def repeat(d: Draw) -> Call:
    shape = d.shape(1)
    axis = None if d.chance(0.3) else d.axis(len(shape))
    size = int(np.prod(shape)) if axis is None else shape[axis]
    counts = d.one((d.one((0, 1, 3)), d.rng.integers(0, 4, size)))
    return [d.array(shape, d.one(ANY)), counts], {"axis": axis}


@rule("reshape")
def reshape(d: Draw) -> Call:
    shape = d.shape()
    other = list(d.rng.permutation(shape).astype(int)) if shape else [1]
    if len(other) > 1 and d.chance():
        other = [other[0] * other[1], *other[2:]]
    other = [int(n) for n in other]
    if 0 not in shape and d.chance(0.4):
        other[int(d.rng.integers(len(other)))] = -1
    return [d.array(shape, d.one(ANY)), tuple(other)], {"copy": True} if d.chance(0.3) else {}


@rule("roll")
def roll(d: Draw) -> Call:
    shape = d.shape()
    axes = None if not shape or d.chance(0.3) else d.axes(len(shape))
    shift: Any = int(d.rng.integers(-9, 9))
    if isinstance(axes, tuple):
        shift = tuple(int(n) for n in d.rng.integers(-9, 9, len(axes)))
    return [d.array(shape, d.one(ANY)), shift], {"axis": axes}


@rule("squeeze")
def squeeze(d: Draw) -> Call:
    shape = d.shape(1, 3, (1, 1, 2, 0))
    ones = [i for i, n in enumerate(shape) if n == 1]
    axes = tuple(i for i in ones if d.chance())
    return [d.array(shape, d.one(ANY)), axes[0] if len(axes) == 1 and d.chance() else axes], {}


@rule("tile")
def tile(d: Draw) -> Call:
    return [d.array(d.shape(0, 2), d.one(ANY)), d.shape(0, 3, (0, 1, 2, 3))], {}


@rule("unstack")
def unstack(d: Draw) -> Call:
    shape = d.shape(1, 3, (1, 2, 3))
    return [d.array(shape, d.one(ANY))], {"axis": d.axis(len(shape))}


# ---- searching, sorting, sets ---------------------------------------------------------------------------------------------
@rule("argmax", "argmin")
def arg(d: Draw) -> Call:
    shape = d.shape(0, 3, (1, 2, 3, 7))
    axis = None if not shape or d.chance(0.3) else d.axis(len(shape))
    return [d.array(shape, d.one(REALS))], {"axis": axis, "keepdims": d.chance()}


@rule("count_nonzero")
def count_nonzero(d: Draw) -> Call:
    shape = d.shape()
    return [d.array(shape, d.one(ALL), True)], {"axis": d.axes(len(shape)), "keepdims": d.chance()}


RULES["nonzero"] = lambda d: ([d.array(d.shape(1), d.one(ALL), low=-1, high=1)], {})


@rule("searchsorted")
def searchsorted(d: Draw) -> Call:
    name = d.one(REALS)
    row, values = d.array((d.one((1, 2, 7, 13)),), name), d.array(d.shape(), name)
    if d.chance(0.3):
        return [row, values], {"side": d.one(("left", "right")), "sorter": np.argsort(row, kind="stable")}
    if d.chance(0.2):
        values = d.array((), name).item()
    return [np.sort(row), values], {"side": d.one(("left", "right"))}


@rule("sort", "argsort")
def sort(d: Draw) -> Call:
    shape = d.shape(1)
    return [d.array(shape, d.one(REALS))], {"axis": d.axis(len(shape)), "descending": d.chance()}


@rule("take")
def take(d: Draw) -> Call:
    shape = d.shape(1, 3, (1, 2, 3, 7))
    axis = d.axis(len(shape))
    indices = d.rng.integers(-shape[axis], shape[axis], d.one((0, 1, 4)))
    return [d.array(shape, d.one(ALL)), indices], {} if len(shape) == 1 and d.chance() else {"axis": axis}


@rule("take_along_axis")
def take_along_axis(d: Draw) -> Call:
    shape = d.shape(1, 3, (1, 2, 3, 7))
    axis = d.axis(len(shape))
    own = list(shape)
    own[axis] = d.one((1, 4))
    return [d.array(shape, d.one(ALL)), d.rng.integers(0, shape[axis], own)], {"axis": axis}


@rule("unique_all", "unique_counts", "unique_inverse", "unique_values")
def unique(d: Draw) -> Call:
    name = d.one(ALL)
    x = d.array(d.shape(), name, low=-1, high=1)
    return [np.asarray(np.round(x)) if name in FLOATS else x], {}


@rule("isin")
def isin(d: Draw) -> Call:
    name = d.one(INTS)
    return [d.array(d.shape(), name, True), d.array(d.shape(0, 2), name, True)], {"invert": d.chance()}


# ---- statistics -----------------------------------------------------------------------------------------------------------
@rule("max", "min")
def extreme(d: Draw) -> Call:
    shape = d.shape(0, 3, (1, 2, 3, 7))
    return [d.array(shape, d.one(REALS), True)], {"axis": d.axes(len(shape)), "keepdims": d.chance()}


@rule("all", "any")
def logical(d: Draw) -> Call:
    shape = d.shape()
    return [d.array(shape, d.one(ALL), low=-1, high=1)], {"axis": d.axes(len(shape)), "keepdims": d.chance()}


@rule("sum", "prod")
def total(d: Draw) -> Call:
    shape, name = d.shape(0, 3, (0, 1, 2, 3)), d.one(REALS)
    options = {"dtype": Dtype(d.one(FLOATS if name in FLOATS else ("int64", *FLOATS)))} if d.chance(0.3) else {}
    name = d.one(COMPLEX) if not options and d.chance(0.2) else name
    return [d.array(shape, name, low=-1, high=2)], {"axis": d.axes(len(shape)), "keepdims": d.chance(), **options}


@rule("mean")
def mean(d: Draw) -> Call:
    shape = d.shape()
    return [d.array(shape, d.one((*FLOATS, *COMPLEX)))], {"axis": d.axes(len(shape)), "keepdims": d.chance()}


@rule("var", "std")
def spread(d: Draw) -> Call:
    shape = d.shape(0, 3, (1, 2, 3, 7))
    options = {"correction": d.one((0, 1, 0.0, 0.5, 1.5))} if d.chance(0.7) else {}
    return [d.array(shape, d.one(FLOATS))], {"axis": d.axes(len(shape)), "keepdims": d.chance(), **options}


@rule("cumulative_sum", "cumulative_prod")
def cumulative(d: Draw) -> Call:
    shape, name = d.shape(1, 3, (0, 1, 2, 3)), d.one(REALS)
    options: dict[str, Any] = {"include_initial": d.chance()} if d.chance() else {}
    options |= {"dtype": Dtype(d.one(FLOATS if name in FLOATS else ("int64", *FLOATS)))} if d.chance(0.3) else {}
    axis = {} if len(shape) == 1 and d.chance() else {"axis": d.axis(len(shape))}
    return [d.array(shape, name, low=-1, high=2)], {**axis, **options}


@rule("diff")
def diff(d: Draw) -> Call:
    shape, name = d.shape(1, 3, (1, 2, 3, 7)), d.one((*SIGNED, *FLOATS))
    axis = d.axis(len(shape))
    one = list(shape)
    one[axis] = 1
    ends = {k: d.array(tuple(one), name) for k in ("prepend", "append") if d.chance(0.3)}
    return [d.array(shape, name)], {"axis": axis, "n": d.one((0, 1, 1, 2, 3)), **ends}


# ---- linear algebra -------------------------------------------------------------------------------------------------------
@rule("matmul", "linalg.matmul")
def matmul(d: Draw) -> Call:
    name, (m, k, n) = d.one((*SIGNED, *FLOATS, *COMPLEX)), (d.one((0, 1, 3, 7)) for _ in range(3))
    batch, other = d.one((((), ()), ((2,), (2,)), ((3, 1), (2,)), ((), (2,))))
    x, y = d.array((*batch, m, k), name), d.array((*other, k, n), name)
    if d.chance(0.2):
        x = d.array((k,), name)
    if d.chance(0.2):
        y = d.array((k,), name)
    return [x, y], {}


@rule("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(d: Draw) -> Call:
    return [d.array(d.shape(2), d.one(ANY))], {}


@rule("tensordot", "linalg.tensordot")
def tensordot(d: Draw) -> Call:
    name = d.one((*SIGNED, *FLOATS))
    if d.chance():
        shared = d.shape(0, 2, (1, 2, 3))
        x, y = d.array((*d.shape(0, 1), *shared), name), d.array((*shared, *d.shape(0, 1)), name)
        return [x, y], {"axes": len(shared)}
    return [d.array((2, 3, 4), name), d.array((5, 4, 2), name)], {"axes": d.one((((0, 2), (2, 1)), ((-1,), (1,))))}


@rule("vecdot", "linalg.vecdot")
def vecdot(d: Draw) -> Call:
    name, n = d.one((*SIGNED, *FLOATS, *COMPLEX)), d.one((0, 1, 3, 7))
    x, y = d.one((((n,), (n,)), ((2, n), (2, n)), ((2, n), (n,)), ((3, 1, n), (2, n))))
    return [d.array(x, name), d.array(y, name)], {}


def square(d: Draw, symmetric: bool = False, positive: bool = False) -> Any:
    """Matrices that are far from singular."""
    n, batch = d.one((1, 2, 3, 5)), d.one(((), (2,), (2, 1)))
    x = d.array((*batch, n, n), d.one((*FLOATS, *FLOATS, *COMPLEX)))
    if symmetric or positive:
        x = x + np.swapaxes(x, -1, -2).conj()
    shift = (20 if positive else 0 if symmetric else 9) * n
    return (x + shift * np.eye(n)).astype(x.dtype)


RULES |= {
    "linalg.cholesky": lambda d: ([square(d, positive=True)], {"upper": d.chance()}),
    "linalg.det": lambda d: ([square(d)], {}),
    "linalg.slogdet": lambda d: ([square(d)], {}),
    "linalg.inv": lambda d: ([square(d)], {}),
    "linalg.eigh": lambda d: ([square(d, symmetric=True)], {}),
    "linalg.eigvalsh": lambda d: ([square(d, symmetric=True)], {}),
    "linalg.eig": lambda d: ([square(d)], {}),
    "linalg.eigvals": lambda d: ([square(d)], {}),
    "linalg.matrix_power": lambda d: ([square(d), d.one((-1, 0, 1, 2, 3))], {}),
    "linalg.diagonal": lambda d: ([d.array(d.shape(2), d.one(ALL))], {"offset": int(d.rng.integers(-3, 4))}),
    "linalg.trace": lambda d: ([d.array(d.shape(2), d.one(REALS))], {"offset": int(d.rng.integers(-3, 4))}),
    "linalg.outer": lambda d: ([d.array((d.one((0, 1, 3)),), "float64"), d.array((d.one((0, 1, 5)),), "float64")], {}),
}


@rule("linalg.cross")
def cross(d: Draw) -> Call:
    name = d.one((*SIGNED, *FLOATS))
    a, b = d.broadcasting()
    return [d.array((*a, 3), name), d.array((*b, 3), name)], {}


def matrices(d: Draw) -> Any:
    shape = (*d.one(((), (2,))), d.one((1, 2, 3, 5)), d.one((1, 2, 3, 5)))
    return d.array(shape, d.one((*FLOATS, *FLOATS, *COMPLEX)))


@rule("linalg.svd")
def svd(d: Draw) -> Call:
    return [matrices(d)], {"full_matrices": d.chance()}


@rule("linalg.qr")
def qr(d: Draw) -> Call:
    return [matrices(d)], {"mode": d.one(("reduced", "complete"))}


@rule("linalg.svdvals", "linalg.pinv", "linalg.matrix_rank")
def whole(d: Draw) -> Call:
    return [matrices(d)], {}


@rule("linalg.matrix_norm")
def matrix_norm(d: Draw) -> Call:
    order = d.one(("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf))
    return [matrices(d)], {"ord": order, "keepdims": d.chance()}


@rule("linalg.vector_norm")
def vector_norm(d: Draw) -> Call:
    shape = d.shape(0, 3, (1, 2, 3))
    order = d.one((0, 1, 2, 3, 0.5, np.inf, -np.inf, -1))
    return [d.array(shape, d.one((*FLOATS, *COMPLEX)))], {
        "axis": d.axes(len(shape)),
        "ord": order,
        "keepdims": d.chance(),
    }


@rule("linalg.solve")
def solve(d: Draw) -> Call:
    a = square(d)
    n = a.shape[-1]
    b = d.array((n,) if d.chance() else (*a.shape[:-2], n, d.one((1, 2))), str(a.dtype))
    return [a, b], {}


# ---- transforms -----------------------------------------------------------------------------------------------------------
NORMS = ("backward", "ortho", "forward")


@rule("fft.fft", "fft.ifft")
def fft(d: Draw) -> Call:
    shape = d.shape(1, 2, (1, 2, 3, 8, 13))
    axis = d.axis(len(shape))
    return [d.array(shape, d.one(COMPLEX))], {"n": d.one((None, None, 1, 4, 5)), "axis": axis, "norm": d.one(NORMS)}


@rule("fft.rfft", "fft.ihfft")
def rfft(d: Draw) -> Call:
    shape = d.shape(1, 2, (1, 2, 3, 8, 13))
    axis = d.axis(len(shape))
    return [d.array(shape, d.one(FLOATS))], {"n": d.one((None, None, 1, 4, 5)), "axis": axis, "norm": d.one(NORMS)}


@rule("fft.irfft", "fft.hfft")
def irfft(d: Draw) -> Call:
    shape = d.shape(1, 2, (2, 3, 8, 13))
    axis = d.axis(len(shape))
    return [d.array(shape, d.one(COMPLEX))], {"n": d.one((None, None, 1, 4, 5)), "axis": axis, "norm": d.one(NORMS)}


def several(dtypes: tuple[str, ...]) -> Rule:
    def draw(d: Draw) -> Call:
        shape = d.shape(1, 3, (2, 3, 4, 5))
        axes = tuple(int(a) for a in d.rng.permutation(len(shape))[: int(d.rng.integers(1, len(shape) + 1))])
        options: dict[str, Any] = {"axes": axes} if d.chance() else {}
        if options and d.chance():
            options["s"] = tuple(d.one((2, 3, 6)) for _ in axes)
        return [d.array(shape, d.one(dtypes))], {**options, "norm": d.one(NORMS)}

    return draw


RULES |= {
    "fft.fftn": several(COMPLEX),
    "fft.ifftn": several(COMPLEX),
    "fft.rfftn": several(FLOATS),
    "fft.irfftn": several(COMPLEX),
    "fft.fftfreq": lambda d: ([d.one((1, 2, 5, 8))], {"d": d.one((1.0, 0.25)), **dtype(d, FLOATS)}),
    "fft.rfftfreq": lambda d: ([d.one((1, 2, 5, 8))], {"d": d.one((1.0, 0.25)), **dtype(d, FLOATS)}),
}


@rule("fft.fftshift", "fft.ifftshift")
def shifted(d: Draw) -> Call:
    shape = d.shape(1)
    axes = d.axes(len(shape))
    return [d.array(shape, d.one(FLOATS))], {"axes": axes if axes != () else None}
