"""Random numbers: `burn.random.normal((3, 4), key=burn.random.key(7))`.

A key (uint32[2]) decides the numbers: the same key gives the same ones, in a traced function and outside, for any number of
threads. `key` makes a key; `split` and `fold_in` derive others. Draws with different keys are independent.
Without a key, draws use a generator of this process, which `burn.manual_seed` seeds. A traced function then takes a random state
as an extra input. The executable fills it at every call, from the same generator or from its own seed (`Executable.seed`).
The numbers come from Threefry-2x32 (burn/dialect/random.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burn.dialect import ops as build
from burn.dialect.random import FOLD, SPLIT, derived
from burn.dialect.spec import element_type
from burn.dialect.types import DTYPES, FLOATS
from burn.errors import TypeMismatch
from burn.runtime.random import checked_seed, process
from burn.tensors import Tensor, constant
from burn.tensors.argument_types import explain_all
from burn.tensors.base import made, of_array, sequence
from burn.tensors.concatenation import stack
from burn.tensors.creation import Shape, checked_shape
from burn.tensors.tracer import active


def manual_seed(seed: int) -> None:
    """Seeds the generator of draws without a key (seed: 0 to 2**64 - 1). Equal seeds give equal numbers."""
    process.reset(seed)


# ---- keys --------------------------------------------------------------------------------------------------------------
def key(seed: int) -> Tensor:
    """The key of a seed (0 to 2**64 - 1): uint32[2]."""
    seed = checked_seed(seed)
    return of_array(np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32), anywhere=True)


def split(key: Tensor, count: int = 2) -> Tensor:
    """New keys, one a row: uint32[count, 2]. The old one is not to be used any more."""
    index = made(build.iota(shape=(count,), axis=0, dtype="uint32"))
    return _derived(key, index, SPLIT)


def fold_in(key: Tensor, data: int | Tensor) -> Tensor:
    """Derives a key from a key and a number (0 to 2**32 - 1; an integer scalar), such as a step or a layer's index."""
    number = constant(data, "uint32") if isinstance(data, int) else data.astype("uint32")
    return _derived(key, number, FOLD)


def _derived(key: Tensor, counter: Tensor, domain: int) -> Tensor:
    given = _key(key)
    return stack([made(w) for w in derived((given[0].value, given[1].value), counter.value, domain)], -1)


def _key(key: Tensor | None) -> Tensor:
    """The key given; else one of the run's random state in a traced function, or the process's next one."""
    if key is not None:
        if not isinstance(key, Tensor):
            raise TypeMismatch("a key is a tensor", [f"not {key!r}; burn.random.key({key!r}) makes one of a seed"])
        if key.dtype != "uint32" or key.shape != (2,):
            raise TypeMismatch("a key is uint32[2]", [f"not {key.type}; see burn.random.key"])
        return key
    return next_key()


def next_key() -> Tensor:
    """The key that is used where none is given, another one each time: of the run's random state in a traced function, or of
    the process's generator."""
    if (tracer := active()) is not None:
        return Tensor(tracer.program.random_key())
    seed, number = process.draw()
    root = of_array(np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32), anywhere=True)
    return fold_in(root, of_array(np.array(number & 0xFFFFFFFF, np.uint32)))


# ---- numbers -----------------------------------------------------------------------------------------------------------
def bits(shape: Shape = (), *, key: Tensor | None = None) -> Tensor:
    """Random bits: uint64."""
    high, low = (made(w).astype("uint64") for w in build.random_bits(_key(key).value, shape=checked_shape(shape)))
    return (high << 32) | low


def uniform(*shape: Any, low: Any = 0.0, high: Any = 1.0, dtype: Any = "float32", key: Tensor | None = None) -> Tensor:
    """Evenly distributed over [low, high), which are numbers or tensors that broadcast to the shape: `uniform(2, 3)` or
    `uniform((2, 3))`."""
    dtype = element_type(dtype)
    word = bits(sequence(shape), key=_key(key))
    digits = DIGITS[_float(dtype)]
    unit = (word >> (64 - digits)).astype(dtype) * 2.0**-digits
    return _affine(unit, high - low, low)


DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""How many binary digits a number in [0, 1) of each type has: with so many random ones none is rounded up to 1."""


def _open(shape: Shape, dtype: str, key: Tensor) -> Tensor:
    """In (0, 1), without the ends, where logarithms are finite: float64, or float32 for the other types."""
    working = "float64" if _float(dtype) == "float64" else "float32"
    digits = DIGITS[working] - 1
    return ((bits(shape, key=key) >> (64 - digits)).astype(working) + 0.5) * 2.0**-digits


def _float(dtype: str) -> str:
    if dtype not in FLOATS:
        raise TypeMismatch("random numbers of this kind are floats", [f"not {dtype}"])
    return dtype


def _affine(x: Tensor, scale: Any, shift: Any) -> Tensor:
    dtype = x.dtype
    scaled = x if isinstance(scale, (int, float)) and scale == 1 else x * scale
    moved = scaled if isinstance(shift, (int, float)) and shift == 0 else scaled + shift
    return moved.astype(dtype)


def normal(*shape: Any, mean: Any = 0.0, std: Any = 1.0, dtype: Any = "float32", key: Tensor | None = None) -> Tensor:
    """Normally distributed with this mean and standard deviation: numbers, or tensors that broadcast to the shape."""
    dtype = element_type(dtype)
    drawn = made(build.random_normal(_key(key).value, shape=checked_shape(sequence(shape)), dtype=_float(dtype)))
    return _affine(drawn, std, mean)


def truncated_normal(
    *shape: Any, low: float = -2.0, high: float = 2.0, dtype: Any = "float32", key: Tensor | None = None
) -> Tensor:
    """Normally distributed (mean 0, deviation 1) within [low, high], by the inverse of the distribution's integral."""
    if not low < high:
        raise TypeMismatch("truncated_normal needs low < high", [f"not {low} and {high}"])
    first, last = (math.erf(bound / math.sqrt(2)) for bound in (low, high))
    y = _open(sequence(shape), "float64", _key(key)) * (last - first) + first
    drawn = _inverse_erf(y) * math.sqrt(2)
    return drawn.clip(low, high).astype(_float(element_type(dtype)))


def _inverse_erf(y: Tensor) -> Tensor:
    """The x with erf(x) = y. Giles' approximation ("Approximating the erfinv function", 2011), then one step of Newton's."""
    w = -((1.0 - y) * (1.0 + y)).log()
    near = _polynomial(w - 2.5, INVERSE_ERF_NEAR)
    far = _polynomial(w.sqrt() - 3.0, INVERSE_ERF_FAR)
    x = (w < 5.0).where(near, far) * y
    return x - (x.erf() - y) * (0.5 * math.sqrt(math.pi)) * (x * x).exp()


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    result = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * x + coefficient
    return result


INVERSE_ERF_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
INVERSE_ERF_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip


def exponential(*shape: Any, scale: Any = 1.0, dtype: Any = "float32", key: Tensor | None = None) -> Tensor:
    """Exponentially distributed with the mean `scale`."""
    dtype = element_type(dtype)
    return _affine(-_open(sequence(shape), dtype, _key(key)).log(), scale, 0).astype(dtype)


def gumbel(*shape: Any, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = "float32", key: Tensor | None = None) -> Tensor:
    """Distributed as Gumbel's extreme values: -log(-log(u)) * scale + loc."""
    dtype = element_type(dtype)
    return _affine(-((-_open(sequence(shape), dtype, _key(key)).log()).log()), scale, loc).astype(dtype)


def randint(
    low: int, high: int | None = None, shape: Shape = (), *, dtype: Any = "int64", key: Tensor | None = None
) -> Tensor:
    """Integers evenly distributed over low, .. high - 1; `randint(n)` over 0, .. n - 1."""
    first, last = (0, low) if high is None else (low, high)
    if not isinstance(first, int) or not isinstance(last, int):
        raise TypeMismatch(
            "randint takes bounds, then the shape", [f"randint(low, high, shape), not {low!r}, {high!r}"]
        )
    dtype = element_type(dtype)
    kind, width = DTYPES[dtype].kind, DTYPES[dtype].bits
    if kind not in ("int", "uint"):
        raise TypeMismatch("randint gives integers", [f"not {dtype}"])
    bounds = (-(2 ** (width - 1)), 2 ** (width - 1)) if kind == "int" else (0, 2**width)
    if not (bounds[0] <= first < last <= bounds[1] and last - first < 2**63):
        raise TypeMismatch(f"randint has no such {dtype}", [f"from {first} to {last} - 1"])
    # 64 random bits for at most 63: no number comes up more than 2^-63 too often a fraction of the range
    drawn = bits(shape, key=_key(key)) % (last - first)
    return (drawn.astype("int64") + first).astype(dtype) if kind == "int" else drawn.astype(dtype) + first


def bernoulli(p: Any = 0.5, shape: Shape | None = None, *, key: Tensor | None = None) -> Tensor:
    """True with the probability p, a number or a tensor, whose shape is the default."""
    chance = p if isinstance(p, (int, float)) else constant(p)
    sizes: Shape = (() if isinstance(chance, (int, float)) else chance.type.shape) if shape is None else shape
    dtype = "float64" if isinstance(chance, Tensor) and chance.dtype == "float64" else "float32"
    return uniform(sizes, dtype=dtype, key=_key(key)) < chance


# ---- choosing ----------------------------------------------------------------------------------------------------------
def permutation(x: Any, axis: int = 0, *, key: Tensor | None = None) -> Tensor:
    """The slices of x along an axis in random order; a number n stands for 0, .. n - 1."""
    given = made(build.iota(shape=checked_shape(x), axis=0)) if isinstance(x, int) else constant(x)
    at = given._axis(axis)
    order = bits((given.type.shape[at],), key=_key(key)).argsort()
    return given.take(order, at)


def choice(x: Any, shape: Shape = (), replace: bool = True, p: Any = None, *, key: Tensor | None = None) -> Tensor:
    """Elements of the vector x (a number n stands for 0, .. n - 1), each as likely as p says: a vector that sums to 1.
    Without `replace` none comes twice."""
    given = made(build.iota(shape=checked_shape(x), axis=0)) if isinstance(x, int) else constant(x)
    if given.ndim != 1:
        raise TypeMismatch("choice is from a vector", [f"not from {given.type}"])
    size, sizes, used = given.type.shape[0], checked_shape(shape), _key(key)
    known = [d for d in sizes if isinstance(d, int)]
    count = math.prod(known) if len(known) == len(sizes) else None
    if isinstance(size, int) and (size == 0 or (not replace and (count is None or count > size))) and count != 0:
        raise TypeMismatch("there is not so much to choose from", [f"{count} of {given.type}"])
    if replace and p is None:
        if not isinstance(size, int):
            raise TypeMismatch("choice from a vector of symbolic size needs p", [f"{given.type}"])
        return given.take(randint(0, max(size, 1), sizes, key=used))
    chances = (
        constant(p).astype("float64") if p is not None else made(build.full(shape=(size,), dtype="float64", value=1.0))
    )
    if chances.ndim != 1 or (
        isinstance(size, int) and chances.type.shape[0] not in (size,) and isinstance(chances.type.shape[0], int)
    ):
        raise TypeMismatch("choice needs a probability for each element", [f"{chances.type} for {given.type}"])
    if not replace:
        score = chances.log() + gumbel((size,), dtype="float64", key=used)
        return given.take(score.topk(count if count is not None else size).indices).reshape(*sizes)
    running = chances.cumsum(0)
    return given.take(running.searchsorted(uniform(sizes, dtype="float64", key=used) * running[-1], "right"))


def categorical(logits: Tensor, axis: int = -1, shape: Shape | None = None, *, key: Tensor | None = None) -> Tensor:
    """Classes (int64) drawn from the logarithms of unnormalised probabilities along an axis. The result has their shape
    without the axis, unless `shape` names one that ends in it."""
    at = logits._axis(axis)
    moved = logits.moveaxis(at, -1)
    lead = moved.type.shape[:-1]
    sizes = lead if shape is None else checked_shape(shape)
    if len(sizes) < len(lead) or tuple(sizes[len(sizes) - len(lead) :]) != tuple(lead):
        raise TypeMismatch(
            "the shape must end in that of the logits without the axis", [f"{list(sizes)}, not {list(lead)}"]
        )
    dtype = "float64" if logits.dtype == "float64" else "float32"
    noise = gumbel((*sizes, moved.type.shape[-1]), dtype=dtype, key=_key(key))
    return (moved.astype(dtype) + noise).argmax(-1)


__all__ = [
    "bernoulli", "bits", "categorical", "choice", "exponential", "fold_in", "gumbel", "key", "manual_seed", "normal",
    "permutation", "randint", "split", "truncated_normal", "uniform",
]  # fmt: skip


explain_all(globals(), "random")
