"""Draws programs of ops that the pass `partition` has rules for, and of some that it has none for. Enter at `drawn`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from burn.dialect import ops
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.passes.sharding.grid import Axes

MOST = 2048
"""Elements of a value."""

SHAPES = [(8, 4), (4, 8), (8,), (4, 4, 4), (8, 8), (2, 8, 4), (4, 4, 2, 4), (6, 4), (4, 2, 7), (8, 1)]

MESHES: list[dict[str, int]] = [{"data": 2, "model": 2}, {"data": 2}, {"model": 3}, {"data": 4}]


@dataclass
class Drawn:
    """A program with its mesh and the shardings of its inputs and outputs. passes: its options of `partition`."""

    program: Program
    sizes: dict[str, int]
    inputs: list[Axes]
    outputs: list[Axes]
    batch: int
    bucket: int


def _shape(x: ir.Value) -> tuple[int, ...]:
    return type_of(x).shape  # type: ignore[return-value]


class _Draw:
    """values: what later ops may read, all float64."""

    def __init__(self, chance: random.Random, values: Sequence[ir.Value]) -> None:
        self.chance, self.values, self.given = chance, list(values), list(values)

    def some(self) -> ir.Value:
        """Mostly a late value: programs are deep."""
        return self.chance.choice([*self.values[-5:], *self.given])

    def like(self, shape: tuple[int, ...]) -> ir.Value | None:
        """A value of a shape."""
        found = [v for v in self.values if _shape(v) == shape]
        return self.chance.choice(found) if found else None

    def ranked(self, rank: int) -> ir.Value | None:
        """A value of at least so many axes."""
        found = [v for v in self.values if len(_shape(v)) >= rank and prod(_shape(v))]
        return self.chance.choice(found) if found else None

    def axis(self, x: ir.Value) -> int:
        return self.chance.randrange(len(_shape(x)))

    def number(self, value: float) -> ir.Value:
        return ops.full(shape=(), value=value, dtype="float64")

    def indices(self, shape: tuple[int, ...], size: int) -> ir.Value:
        """Indices below `size`, which repeat."""
        counted = ops.iota(shape=shape, axis=self.chance.randrange(len(shape)), dtype="int64")
        scaled = ops.mul(counted, ops.full(shape=(), value=self.chance.choice([1, 3, 5]), dtype="int64"))
        return ops.mod(scaled, ops.full(shape=(), value=size, dtype="int64"))


Step = Callable[[_Draw], ir.Value | None]
STEPS: list[Step] = []


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


@step
def _binary(draw: _Draw) -> ir.Value | None:
    x = draw.some()
    fits = [v for v in draw.values if _broadcast(_shape(v), _shape(x))]
    name = draw.chance.choice(["add", "add", "sub", "mul", "max"])
    return getattr(ops, name)(x, draw.chance.choice(fits))


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs) and prod(np.broadcast_shapes(a, b)) <= MOST


@step
def _unary(draw: _Draw) -> ir.Value | None:
    return getattr(ops, draw.chance.choice(["neg", "tanh", "tanh", "abs"]))(draw.some())


@step
def _reduce(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    kind = draw.chance.choice(["sum", "sum", "max", "min", "prod"])
    return x and ops.reduce(x, kind=kind, axes=(draw.axis(x),), keepdims=draw.chance.random() < 0.5)


@step
def _reshape(draw: _Draw) -> ir.Value | None:
    x = draw.some()
    n = prod(_shape(x))
    shapes = [(n,), (n, 1), (1, n)]
    shapes += [(a, n // a) for a in (2, 3, 4, 8) if n % a == 0] + [(n // a, a) for a in (2, 3, 4) if n % a == 0]
    shapes += [(2, n // 4, 2), (2, 2, n // 4)] if n % 4 == 0 else []
    return ops.reshape(x, shape=draw.chance.choice(shapes))


@step
def _transpose(draw: _Draw) -> ir.Value | None:
    x = draw.some()
    order = list(range(len(_shape(x))))
    draw.chance.shuffle(order)
    return ops.transpose(x, permutation=tuple(order))


@step
def _dot(draw: _Draw) -> ir.Value | None:
    x = draw.some()
    pairs = [
        (y, i, j)
        for y in draw.values
        for i, d in enumerate(_shape(x))
        for j, e in enumerate(_shape(y))
        if d == e and prod(_shape(x)) * prod(_shape(y)) // (d * d) <= MOST and len(_shape(x)) + len(_shape(y)) <= 6
    ]
    if not pairs:
        return None
    y, i, j = draw.chance.choice(pairs)
    return ops.mul(ops.dot_general(x, y, lhs_contract=(i,), rhs_contract=(j,)), draw.number(0.25))


@step
def _batched_dot(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(3)
    if x is None or (y := draw.like(_shape(x))) is None or prod(_shape(x)) * _shape(x)[1] > MOST * _shape(x)[2]:
        return None
    last = tuple(range(2, len(_shape(x))))
    return ops.dot_general(x, y, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=last, rhs_contract=last)


@step
def _broadcast_to(draw: _Draw) -> ir.Value | None:
    x = draw.some()
    return ops.broadcast_to(x, shape=(4, *_shape(x))) if prod(_shape(x)) * 4 <= MOST and len(_shape(x)) < 5 else None


@step
def _slice(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    if x is None or _shape(x)[axis := draw.axis(x)] < 2:
        return None
    size = _shape(x)[axis]
    half = size // 2
    rows = [(0, half, 1), (size - half, half, 1), (1, half, 1), (0, half, 2), (size - 1, size, -1)]
    own = draw.chance.choice(rows)
    all_ = [own if i == axis else (0, d, 1) for i, d in enumerate(_shape(x))]
    starts, sizes, steps = zip(*all_, strict=True)
    return ops.slice(x, starts=starts, sizes=sizes, steps=steps)


@step
def _concat(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    if x is None:
        return None
    axis, shape = draw.axis(x), _shape(x)
    fits = [
        v for v in draw.values if len(_shape(v)) == len(shape) and _without(_shape(v), axis) == _without(shape, axis)
    ]
    return ops.concat([x, draw.chance.choice(fits)], axis=axis)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


@step
def _pad(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    if x is None:
        return None
    axis, rank = draw.axis(x), len(_shape(x))
    low, high, gaps = ([n if i == axis else 0 for i in range(rank)] for n in draw.chance.choice([(1, 3, 0), (0, 2, 1)]))
    return ops.pad(x, draw.number(0.5), low=tuple(low), high=tuple(high), interior=tuple(gaps))


@step
def _iota(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    return x and ops.mul(ops.iota(shape=_shape(x), axis=draw.axis(x), dtype="float64"), x)


@step
def _cumulative(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    return x and ops.cumulative(x, axis=draw.axis(x), kind="sum")


@step
def _sort(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    return x and ops.sort(x, axis=draw.axis(x), descending=draw.chance.random() < 0.5)[0]


@step
def _arg_reduce(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    return x and ops.cast(ops.arg_reduce(x, kind="max", axis=draw.axis(x)), dtype="float64")


@step
def _gather(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    if x is None:
        return None
    axis = draw.axis(x)
    shape = draw.chance.choice([(4,), (8,), (2, 4)])
    if len(_shape(x)) > 4 or prod(_shape(x)) * 8 > MOST:
        return None
    return ops.gather(x, draw.indices(shape, _shape(x)[axis]), axis=axis)


@step
def _gather_elements(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    if x is None:
        return None
    axis = draw.axis(x)
    return ops.gather_elements(x, draw.indices(_shape(x), _shape(x)[axis]), axis=axis)


@step
def _gather_nd(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(2)
    if x is None or prod(_shape(x)) > MOST // 4:
        return None
    return ops.gather_nd(x, draw.indices((4, 1), _shape(x)[0]))


def _initial(draw: _Draw, x: ir.Value) -> ir.Value:
    """Zeros, to which each device can add its part, or a value."""
    return ops.full(shape=_shape(x), value=0.0, dtype="float64") if draw.chance.random() < 0.6 else ops.tanh(x)


@step
def _scatter_elements(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    if x is None:
        return None
    axis = draw.axis(x)
    indices = draw.indices(_shape(x), _shape(x)[axis])
    return ops.scatter_elements(_initial(draw, x), indices, x, axis=axis, reduction="add")


@step
def _scatter_nd(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    if x is None:
        return None
    rows = _shape(x)[0]
    return ops.scatter_nd(_initial(draw, x), draw.indices((rows, 1), rows), x, reduction="add")


@step
def _conv(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(3)
    if x is None or len(shape := _shape(x)) != 3 or shape[2] < 2:
        return None
    channels, groups = shape[1], draw.chance.choice([1, 1, shape[1]])
    outputs = draw.chance.choice([4, 8]) * (groups if groups > 1 else 1)
    counted = ops.iota(shape=(outputs, channels // groups, 2), axis=0, dtype="float64")
    weight = ops.mul(ops.tanh(counted), draw.number(0.5))
    if prod((shape[0], outputs, shape[2])) > MOST:
        return None
    return ops.conv(x, weight, strides=(1,), dilations=(1,), low=(1,), high=(0,), groups=groups)


@step
def _windows(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    if x is None or len(_shape(x)) > 3 or _shape(x)[axis := draw.axis(x)] < 3:
        return None
    made = ops.windows(x, axis=axis, window=(2,), strides=(1,), dilations=(1,))
    return made if prod(_shape(made)) <= MOST else None


@step
def _window_reduce(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    if x is None or _shape(x)[axis := draw.axis(x)] < 2:
        return None
    rank = len(_shape(x))
    window = tuple(2 if i == axis else 1 for i in range(rank))
    ones, zeros = (1,) * rank, (0,) * rank
    return ops.window_reduce(x, kind="max", window=window, strides=ones, dilations=ones, low=zeros, high=zeros)


@step
def _attention(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(4)
    if x is None or len(_shape(x)) != 4:
        return None
    k, v = (draw.like(_shape(x)) or x for _ in range(2))
    return ops.attention(x, k, v, None, None, scale=0.5, causal=draw.chance.random() < 0.5)


@step
def _batch_norm(draw: _Draw) -> ir.Value | None:
    """Statistics over the batch, as a training step has them."""
    x = draw.ranked(2)
    if x is None:
        return None
    axes = (0, *range(2, len(_shape(x))))
    count = draw.number(1.0 / prod(_shape(x)[axis] for axis in axes))
    centred = ops.sub(x, ops.mul(ops.reduce(x, kind="sum", axes=axes, keepdims=True), count))
    variance = ops.mul(ops.reduce(ops.mul(centred, centred), kind="sum", axes=axes, keepdims=True), count)
    return ops.div(centred, ops.sqrt(ops.add(variance, draw.number(0.1))))


@step
def _softmax(draw: _Draw) -> ir.Value | None:
    x = draw.ranked(1)
    return x and ops.softmax(x, axis=draw.axis(x))


def _sharding(chance: random.Random, shape: Sequence[int], sizes: dict[str, int]) -> Axes:
    names = list(sizes)
    chance.shuffle(names)
    axes: list[tuple[str, ...]] = [()] * len(shape)
    for name in names:
        fits = [i for i, d in enumerate(shape) if d and d % (sizes[name] * prod(sizes[n] for n in axes[i])) == 0]
        if fits and chance.random() < 0.6:
            axis = chance.choice(fits)
            axes[axis] = (*axes[axis], name)
    return tuple(axes)


def drawn(seed: int) -> Drawn:
    """The program of a seed."""
    chance = random.Random(f"sharding {seed}")
    sizes = chance.choice(MESHES)
    shapes = [chance.choice(SHAPES) for _ in range(3)]
    with context():
        program = Program.create([(f"x{i}", TensorType("float64", shape)) for i, shape in enumerate(shapes)])
        with program.building():
            draw = _Draw(chance, program.inputs)
            for _ in range(chance.randint(4, 30)):
                made = chance.choice(STEPS)(draw)
                if made is not None and 0 < prod(_shape(made)) <= MOST:
                    draw.values.append(made)
            results = [draw.values[-1], draw.values[-2], chance.choice(draw.values)]
        program.finish([(f"y{i}", value) for i, value in enumerate(results)])
        inputs = [_sharding(chance, shape, sizes) for shape in shapes]
        outputs = [_sharding(chance, _shape(value), sizes) for value in results]
    return Drawn(program, sizes, inputs, outputs, chance.choice([0, 1, 3]), chance.choice([1, 256, 1 << 20]))
