"""Initialisers of parameters.

    layer.weight.reset(nn.init.kaiming_normal("relu"))
    model.visit(lambda path, p: p.reset(nn.init.xavier_uniform()) if p.ndim > 1 else None)

Each function gives an `Init`, a function of a shape and a numpy generator. Fans are counted as in torch: a weight is [out, in,
kernel..], or [in, out, kernel..] when `transposed`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from math import prod

import numpy as np

from burn.errors import TypeMismatch

Init = Callable[[tuple[int, ...], np.random.Generator], np.ndarray]
Simple = Callable[[tuple[int, ...]], np.ndarray]
"""A deterministic initialiser, such as `numpy.ones`."""

GAINS: dict[str, float] = {
    "linear": 1.0,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "leaky_relu": math.sqrt(2 / (1 + 0.01**2)),
    "selu": 3 / 4,
}
"""Factors for weights before an activation, so that its output keeps the variance (arXiv:1502.01852)."""


def gain(nonlinearity: str, slope: float = 0.01) -> float:
    """The gain of an activation; `slope` is leaky_relu's. Raises TypeMismatch."""
    if nonlinearity not in GAINS:
        raise TypeMismatch(f"there is no gain for '{nonlinearity}'", [f"there are {', '.join(GAINS)}"])
    return math.sqrt(2 / (1 + slope**2)) if nonlinearity == "leaky_relu" else GAINS[nonlinearity]


def fans(shape: tuple[int, ...], transposed: bool = False) -> tuple[int, int]:
    """(fan in, fan out) of a weight. Raises TypeMismatch for a vector."""
    if len(shape) < 2:
        raise TypeMismatch("fans are of weights with two axes or more", [f"not of shape {list(shape)}"])
    field = prod(shape[2:])
    inputs, outputs = shape[1] * field, shape[0] * field
    return (outputs, inputs) if transposed else (inputs, outputs)


def drawn(init: Init | Simple, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """A parameter's first elements. Raises TypeMismatch unless they are of its shape."""
    try:
        inspect.signature(init).bind(shape, rng)
    except (TypeError, ValueError):  # takes no generator; or is not Python, as numpy.ones once was
        array = np.asarray(init(shape))  # type: ignore[call-arg]
    else:
        second = list(inspect.signature(init).parameters.values())[1]
        simple = second.default is not inspect.Parameter.empty  # numpy.ones(shape, dtype=None)
        array = np.asarray(init(shape) if simple else init(shape, rng))  # type: ignore[call-arg]
    if array.shape != tuple(shape):
        raise TypeMismatch("an initialiser gave another shape", [f"{list(array.shape)}, not {list(shape)}"])
    return array


def constant(value: float) -> Init:
    """An `Init`: one number for all elements."""
    return lambda shape, rng: np.full(shape, value)


def zeros(shape: tuple[int, ...], rng: np.random.Generator | None = None) -> np.ndarray:
    """An `Init`: zeros."""
    return np.zeros(shape)


def ones(shape: tuple[int, ...], rng: np.random.Generator | None = None) -> np.ndarray:
    """An `Init`: ones."""
    return np.ones(shape)


def eye(shape: tuple[int, ...], rng: np.random.Generator | None = None) -> np.ndarray:
    """An `Init`: the identity matrix, cropped or padded with zeros."""
    if len(shape) != 2:
        raise TypeMismatch("an identity has two axes", [f"not shape {list(shape)}"])
    return np.eye(*shape)


def uniform(low: float = 0.0, high: float = 1.0) -> Init:
    """Uniform over [low, high)."""
    return lambda shape, rng: rng.uniform(low, high, shape)


def normal(mean: float = 0.0, deviation: float = 1.0) -> Init:
    """Normal, with a mean and a standard deviation."""
    return lambda shape, rng: rng.normal(mean, deviation, shape)


def truncated_normal(mean: float = 0.0, deviation: float = 1.0, low: float = -2.0, high: float = 2.0) -> Init:
    """Normal, with values outside of [low, high] redrawn. Raises TypeMismatch for an empty interval."""
    if not low < high:
        raise TypeMismatch("nothing lies in this interval", [f"[{low}, {high}]"])
    # redrawing is slow if nearly all values fall outside; then draw uniformly and accept by density
    middle = min(max(mean, low), high)

    def draw(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        flat = np.empty(prod(shape))
        missing = np.arange(flat.size)
        narrow = (high - low) < 2 * deviation or not low - deviation < mean < high + deviation
        while missing.size:
            if narrow:
                value = rng.uniform(low, high, missing.size)
                density = np.exp(((middle - mean) ** 2 - (value - mean) ** 2) / (2 * deviation**2))
                taken = rng.uniform(size=missing.size) < density
            else:
                value = rng.normal(mean, deviation, missing.size)
                taken = (low <= value) & (value <= high)
            flat[missing[taken]] = value[taken]
            missing = missing[~taken]
        return flat.reshape(shape)

    return draw


def xavier_uniform(gain: float = 1.0, transposed: bool = False) -> Init:
    """Variance 2 gain^2 / (fan in + fan out) (Glorot and Bengio, "Understanding the difficulty of training deep feedforward
    neural networks", 2010)."""
    return _uniform_of(lambda i, o: gain * math.sqrt(2 / max(i + o, 1)), transposed)


def xavier_normal(gain: float = 1.0, transposed: bool = False) -> Init:
    """As `xavier_uniform`, normally distributed."""
    return _normal_of(lambda i, o: gain * math.sqrt(2 / max(i + o, 1)), transposed)


def kaiming_uniform(
    nonlinearity: str = "relu", slope: float = 0.01, mode: str = "fan_in", transposed: bool = False
) -> Init:
    """Variance gain^2 / fan (He et al., "Delving deep into rectifiers", arXiv:1502.01852)."""
    return _uniform_of(_he(nonlinearity, slope, mode), transposed)


def kaiming_normal(
    nonlinearity: str = "relu", slope: float = 0.01, mode: str = "fan_in", transposed: bool = False
) -> Init:
    """As `kaiming_uniform`, normally distributed."""
    return _normal_of(_he(nonlinearity, slope, mode), transposed)


def lecun_uniform(transposed: bool = False) -> Init:
    """Variance 1 / fan in (LeCun et al., "Efficient BackProp", 1998)."""
    return _uniform_of(lambda i, o: math.sqrt(1 / max(i, 1)), transposed)


def lecun_normal(transposed: bool = False) -> Init:
    """As `lecun_uniform`, normally distributed."""
    return _normal_of(lambda i, o: math.sqrt(1 / max(i, 1)), transposed)


def orthogonal(gain: float = 1.0) -> Init:
    """Orthogonal rows (or columns, if there are more rows) of norm `gain` (arXiv:1312.6120). All axes after the first count as
    one."""

    def draw(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        fans(shape)
        rows, columns = shape[0], prod(shape[1:])
        tall = rng.standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(tall)
        q = q * np.sign(np.diag(r))  # makes the distribution uniform (arXiv:math-ph/0609050)
        return gain * (q if rows >= columns else q.T).reshape(shape)

    return draw


def inputs_bound(count: int) -> Init:
    """torch's default: uniform within 1 / sqrt(the number of inputs of an output)."""
    bound = max(count, 1) ** -0.5
    return uniform(-bound, bound)


def _he(nonlinearity: str, slope: float, mode: str) -> Callable[[int, int], float]:
    if mode not in ("fan_in", "fan_out"):
        raise TypeMismatch(f"'{mode}' is neither fan_in nor fan_out")
    factor = gain(nonlinearity, slope)
    return lambda i, o: factor / math.sqrt(max(i if mode == "fan_in" else o, 1))


def _uniform_of(deviation: Callable[[int, int], float], transposed: bool) -> Init:
    def draw(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        bound = math.sqrt(3) * deviation(*fans(shape, transposed))
        return rng.uniform(-bound, bound, shape)

    return draw


def _normal_of(deviation: Callable[[int, int], float], transposed: bool) -> Init:
    return lambda shape, rng: rng.normal(0.0, deviation(*fans(shape, transposed)), shape)
