"""Draws a loop as text that numpy and burn both run: carried tensors `c`, a slice `x`, an iteration `i`, captured tensors `k`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
SMALL = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
DTYPES = (*INTS, *FLOATS, *COMPLEX, *SMALL, "bool", "bool")
SHAPES = ((), (1,), (2,), (17,), (3, 5), (5, 5), (7, 7), (4, 1), (2, 3, 4), (0,), (0, 3), (33, 2))
KINDS = ("fori", "fori", "while", "scan", "scan")

MOVES = ("{a}", "{b}", "{k}", "m.where(i % 2 == 0, {a}, {b})", "m.where({mask}, {a}, {b})")
ALONG = ("m.flip({a}, {axis})", "m.roll({a}, {shift}, {axis})", "m.concatenate([{a}[1:], {a}[:1]], 0)")
SORTS = ("m.sort({a}, {axis})",)
SQUARE = ("m.swapaxes({a}, 0, 1)",)
OF_KIND = {
    "int": ("{a} + {b}", "{a} * {b}", "{a} - {k}", "m.maximum({a}, {b})", "m.minimum({a}, {k})", "{a} & {b}", "{a} ^ {k}"),
    "float": ("{a} * 0.5 + {b} * 0.25", "m.tanh({a}) - {k}", "m.maximum({a}, {b}) * 0.5", "m.exp(-m.abs({a}))"),
    "complex": ("{a} * 0.5 + {b} * 0.25", "{a} * {k} * 0.1", "m.conj({a})"),
    "bool": ("{a} & {b}", "{a} | {k}", "{a} ^ {b}", "~{a}"),
    "small": (),
}  # fmt: skip
MATMUL = "m.matmul({a}, {k}) * 0.1"


def kind_of(dtype: str) -> str:
    if dtype == "bool":
        return "bool"
    if dtype in SMALL:
        return "small"
    return "int" if dtype in INTS else "complex" if dtype in COMPLEX else "float"


@dataclass
class Loop:
    """text: of a function `loop(m, c, k, xs, n)`. dtypes: of the carried tensors, with a captured one of each type and
    shape. xs: True if slices are read. trips: the iterations."""

    text: str
    kind: str
    dtypes: tuple[str, ...]
    shape: tuple[int, ...]
    trips: int
    xs: bool

    def inputs(self, seed: int, shape: Sequence[int] | None = None, trips: int | None = None) -> list[np.ndarray]:
        """Carried tensors, captured ones, slices, the number of iterations."""
        rng = np.random.default_rng(seed)
        shape = self.shape if shape is None else tuple(shape)
        trips = self.trips if trips is None else trips
        found = [elements(rng, shape, dtype) for dtype in (*self.dtypes, *self.dtypes)]
        if self.xs:
            found.append(elements(rng, (max(trips, 0), *shape), self.dtypes[0]))
        return [*found, np.array(trips, np.int64)]


def elements(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if kind_of(dtype) == "int":
        low = 0 if dtype.startswith("u") else -100
        return np.asarray(rng.integers(low, 100, shape)).astype(dtype)
    array = np.asarray(rng.standard_normal(shape))
    if kind_of(dtype) == "complex":
        array = array + 1j * rng.standard_normal(shape)
    return np.asarray(array).astype(getattr(ml_dtypes, dtype, dtype))


def drawn(seed: int) -> Loop:
    chance = random.Random(f"loop {seed}")
    kind, shape = chance.choice(KINDS), chance.choice(SHAPES)
    dtypes = tuple(chance.choice(DTYPES) for _ in range(chance.randint(1, 3)))
    dtypes += tuple(chance.choice(dtypes) for _ in range(chance.randint(0, 2)))  # of one type, loops exchange them
    xs = kind == "scan" and chance.random() < 0.8
    body = [expression(chance, number, dtypes, shape, xs) for number in range(len(dtypes))]
    inner = chance.random() < 0.25
    if inner:
        more = [expression(chance, number, dtypes, shape, False) for number in range(len(dtypes))]
        step = f"m.fori(0, {chance.choice((0, 1, 2, 3))}, lambda i, c: ({', '.join(more)},), ({', '.join(body)},))"
    else:
        step = f"({', '.join(body)},)"
    outputs = ", ".join(chance.sample([f"c[{n}]" for n in range(len(dtypes))], chance.randint(1, len(dtypes))))
    if kind == "fori":
        run = f"m.fori({chance.choice((0, 0, 1, -2))}, n, lambda i, c: {step}, c)"
    elif kind == "while":
        run = f"m.repeat(n, lambda i, c: {step}, c)"
    else:
        run = f"m.scan(lambda c, x, i: ({step}, ({outputs},)), c, {'xs, None' if xs else 'None, n'})"
    trips = chance.choice((0, 1, 2, 3, 5, 9))
    return Loop(f"lambda m, c, k, xs, n: {run}", kind, dtypes, shape, trips, xs)


def expression(chance: random.Random, number: int, dtypes: Sequence[str], shape: Sequence[int], has_slice: bool) -> str:
    """A tensor of the type of the carried one with this number."""
    dtype = dtypes[number]
    kind = kind_of(dtype)
    alike = [n for n, other in enumerate(dtypes) if other == dtype]
    forms = [*MOVES, *2 * OF_KIND[kind]]
    if shape:
        forms += ALONG
        if kind in ("int", "float"):
            forms += SORTS
    if len(shape) == 2 and shape[0] == shape[1]:
        forms += SQUARE
        if kind == "float":
            forms.append(MATMUL)
    masks = [f"c[{n}]" for n, other in enumerate(dtypes) if other == "bool"]
    masks += [f"c[{n}] > c[{n}] // 2" for n, other in enumerate(dtypes) if kind_of(other) == "int"]
    form = chance.choice([f for f in forms if masks or "{mask}" not in f])
    operands = [f"c[{n}]" for n in alike] + (["x"] if has_slice and dtype == dtypes[0] else [])
    others = [n for n, other in enumerate(dtypes) if kind_of(other) in ("int", "bool")]
    if others and kind in ("int", "float") and chance.random() < 0.3:
        other = chance.choice(others)
        value = f"c[{other}]" if dtypes[other] == "bool" or kind == "int" else f"(c[{other}] % 5)"
        operands.append(f"m.astype({value}, '{dtype}')")
    text = form.format(
        a=chance.choice(operands),
        b=chance.choice(operands),
        k=f"k[{chance.choice(alike)}]",
        mask=chance.choice(masks) if masks else "",
        axis=chance.randrange(len(shape)) if shape else 0,
        shift=chance.choice((1, -1, 2)),
    )
    return f"m.astype({text}, '{dtype}')"
