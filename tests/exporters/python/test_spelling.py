"""Random small programs of ops that Python writes in a way of their own, of every element type: their source gives them again.

BURN_SWEEP sets how many, BURN_SWEEP_SEED the first seed. `generate` raises if the source that it wrote gives another program;
a few programs are also run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from burn.dialect import ops
from burn.dialect.compose import number
from burn.dialect.dims import dim_max, dim_min, symbol
from burn.dialect.mlir import ir
from burn.dialect.pointwise import FUNCTIONS, Function
from burn.dialect.types import DTYPES, type_of
from burn.errors import BurnError, CompileError
from burn.exporters.python import generate as generating
from burn.exporters.python.generate import generate
from burn.exporters.python.spell import RULES
from burn.exporters.python.text import method
from burn.passes.constants import full
from tests.exporters.onnx.building import program

COUNT = int(os.environ.get("BURN_SWEEP", "250"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "29"))
DTYPES_DRAWN = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int8",
    "uint8",
    "uint32",
    "uint64",
    "bool",
)
SPECIAL = {
    "float": (
        0.0, -0.0, 1.0, -1.0, 0.5, 0.1, -0.1, 0.0625, 2.0, 3.0, 1e-40, 1e-5, 1e7, 3e38, float("inf"), float("-inf"),
        float("nan"),
    ),
    "int": (0, 1, -1, 2, 3, 7, -128, 127),
    "uint": (0, 1, 2, 3, 255),
    "bool": (True, False),
}  # fmt: skip

Draw = Callable[[random.Random, list[ir.Value]], ir.Value]


def drawn_number(draw: random.Random, dtype: str) -> ir.Value:
    kind = DTYPES[dtype].kind
    value = draw.choice(SPECIAL[kind])
    if kind in ("int", "uint") and draw.random() < 0.2:
        bits = DTYPES[dtype].bits
        value = draw.choice(
            [2**bits - 1, 2 ** (bits - 1)] if kind == "uint" else [2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
        )
    return number(value, dtype)


def operand(draw: random.Random, values: list[ir.Value], dtype: str, rank: int | None = None) -> ir.Value:
    """A value of the type, or a number."""
    found = [v for v in values if type_of(v).dtype == dtype and (rank is None or type_of(v).rank == rank)]
    if not found or (rank is None and draw.random() < 0.35):
        return drawn_number(draw, dtype)
    return draw.choice(found[-4:])


def pick(draw: random.Random, values: list[ir.Value], fits: Callable[[Any], bool]) -> ir.Value:
    found = [v for v in values if fits(type_of(v))]
    if not found:
        raise LookupError
    return draw.choice(found[-5:])


def function(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    row: Function = draw.choice(FUNCTIONS)
    x = pick(draw, values, lambda t: DTYPES[t.dtype].kind in row.kinds)
    dtype = type_of(x).dtype
    builder = getattr(ops, row.name + "_" * (row.name in ("and", "or", "not")))
    arguments = [x, operand(draw, values, dtype)][: row.arity]
    draw.shuffle(arguments)
    return builder(*arguments)


def reduced(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    kind = draw.choice(["sum", "prod", "max", "min", "any", "all"])
    truth = kind in ("any", "all")
    x = pick(draw, values, lambda t: (t.dtype == "bool") == truth and t.rank > 0)
    axes = draw.sample(range(type_of(x).rank), draw.randint(1, type_of(x).rank))
    return ops.reduce(x, kind=kind, axes=tuple(sorted(axes)), keepdims=draw.random() < 0.5)


def averaged(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    """A sum, divided by how many it takes in."""
    x = pick(draw, values, lambda t: DTYPES[t.dtype].kind == "float" and t.rank > 0 and t.shape[-1] == 4)
    total = ops.reduce(x, kind="sum", axes=(type_of(x).rank - 1,), keepdims=draw.random() < 0.5)
    dtype = type_of(x).dtype
    return draw.choice([lambda: ops.div(total, number(4, dtype)), lambda: ops.mul(total, number(0.25, dtype))])()


def searched(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    x = pick(draw, values, lambda t: DTYPES[t.dtype].kind in ("float", "int", "uint") and t.rank > 0)
    axis = draw.randint(-type_of(x).rank, type_of(x).rank - 1)
    keep, last = draw.random() < 0.5, draw.random() < 0.2
    return ops.arg_reduce(x, kind=draw.choice(["max", "min"]), axis=axis, keepdims=keep, last=last)


def converted(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    return ops.cast(pick(draw, values, lambda t: True), dtype=draw.choice(DTYPES_DRAWN), saturate=draw.random() < 0.8)


def reshaped(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    x = pick(draw, values, lambda t: t.rank > 0)
    shape = list(type_of(x).shape)
    at = draw.randrange(len(shape))
    choices: list[Sequence[Any]] = [[*shape[:at], 1, *shape[at:]], [type_of(x).elements], [*shape, 1, 1]]
    if len(shape) > 1:
        at = draw.randrange(len(shape) - 1)
        choices.append([*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]])
        choices.append(shape[::-1])
    return ops.reshape(x, shape=tuple(draw.choice(choices)))


def moved(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    x = pick(draw, values, lambda t: t.rank > 1)
    order = list(range(type_of(x).rank))
    draw.shuffle(order)
    return ops.transpose(x, permutation=tuple(order))


def widened(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    x = pick(draw, values, lambda t: t.rank < 4)
    shape = [draw.choice([2, symbol("n"), 3]) if d == 1 else d for d in type_of(x).shape]
    return ops.broadcast_to(x, shape=(*[draw.choice([1, 2, symbol("n")])] * draw.randint(0, 1), *shape))


def cut(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    """Slices with starts, sizes and steps of every sign, of known and of named sizes."""
    x = pick(draw, values, lambda t: t.rank > 0)
    starts, sizes, steps = [], [], []
    for dim in type_of(x).shape:
        if not isinstance(dim, int):
            start, size, step = draw.choice(
                [(0, dim, 1), (0, dim_min(dim, 2), 1), (dim - 1, dim, -1), (dim_max(dim - 2, 0), dim_min(dim, 2), 1)]
            )
        else:
            step = draw.choice([1, 1, 2, 3, -1, -2])
            size = draw.randint(0, -(-dim // abs(step)))
            room = dim - (size - 1) * abs(step) - 1 if size else dim
            first = draw.randint(0, max(room, 0))
            start = first if step > 0 or not size else first + (size - 1) * -step
            start = min(start, max(dim - 1, 0)) if not size else start
        starts.append(start)
        sizes.append(size)
        steps.append(step)
    return ops.slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))


def taken(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    x = pick(draw, values, lambda t: t.rank > 0 and isinstance(t.shape[0], int) and t.shape[0] > 0)
    dtype = draw.choice(["int64", "int32"])
    size = type_of(x).shape[0]
    index = number(draw.choice([0, -1, size - 1 if isinstance(size, int) else 0]), dtype)
    return ops.gather(x, index, axis=draw.choice([0, -type_of(x).rank]))


def joined(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    x = pick(draw, values, lambda t: t.rank > 0)
    return ops.concat([x] * draw.randint(1, 3), axis=draw.randint(-type_of(x).rank, type_of(x).rank - 1))


def chosen(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    condition = pick(draw, values, lambda t: t.dtype == "bool")
    dtype = draw.choice(DTYPES_DRAWN)
    return ops.select(condition, operand(draw, values, dtype), operand(draw, values, dtype))


def matmul(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    x = pick(
        draw, values, lambda t: t.rank > 0 and DTYPES[t.dtype].kind in ("float", "int") and isinstance(t.shape[-1], int)
    )
    dtype, size = type_of(x).dtype, type_of(x).shape[-1]
    other = pick(draw, values, lambda t: t.dtype == dtype and t.rank > 0 and size in (t.shape[0], t.shape[-1]))
    axis = type_of(other).rank - 1 if type_of(other).shape[-1] == size else 0
    return ops.dot_general(x, other, lhs_contract=(type_of(x).rank - 1,), rhs_contract=(axis,))


def filled(draw: random.Random, values: list[ir.Value]) -> ir.Value:
    x = pick(draw, values, lambda t: t.rank > 0)
    kind = DTYPES[type_of(x).dtype].kind
    return full(draw.choice(SPECIAL[kind]), type_of(x))


STEPS: tuple[Draw, ...] = (
    function, function, function, function, reduced, reduced, averaged, searched, converted, reshaped, moved, widened, cut, cut,
    taken, joined, chosen, matmul, filled,
)  # fmt: skip


def build(seed: int) -> Any:
    """A program of a few ops; every value that nothing reads is an output."""
    draw = random.Random(seed)
    shapes = draw.sample(["[n, 4]", "[4]", "[2, 3, 4]", "[1, 4]", "[n]", "[]", "[4, 4]", "[0, 4]", "[n, 1, m]"], 3)
    types = {f"x{i}": f"{draw.choice(DTYPES_DRAWN)}{shape}" for i, shape in enumerate(shapes)}

    def body(*inputs: ir.Value) -> list[ir.Value]:
        values = list(inputs)
        for _ in range(draw.randint(2, 7)):
            try:
                values.append(draw.choice(STEPS)(draw, values))
            except (BurnError, LookupError):
                continue  # the op does not take these
        made = values[len(inputs) :] or values[:1]
        return [v for v in made if not any(True for _ in v.uses)] or made[-1:]

    return program(body, **types)


@pytest.mark.parametrize("part", range(5))
def test_source_gives_the_program_again(part: int) -> None:
    failed = []
    for seed in range(SEED + part, SEED + COUNT, 5):
        made = build(seed)
        try:
            source = generate(made, plain=False)
        except Exception as error:
            failed.append(f"{seed}: {type(error).__name__}: {error}")
            continue
        assert source.load()
    assert not failed, f"{len(failed)} of {COUNT // 5}\n" + "\n".join(failed[:12])


def test_unreadable_programs_use_the_fallback_notation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spelling that gives another program is found out, and the op written as a function."""

    def wrong(node: Any, scope: Any) -> Any:
        x = scope.value(node.operands[0])
        return method(x, "abs")

    monkeypatch.setitem(RULES, "neg", wrong)
    types = {"x": "float32[n, 4]"}
    with pytest.raises(CompileError, match="does not give the same program"):
        generate(program(ops.neg, **types), plain=False)
    assert "ops.neg(x)" in generate(program(ops.neg, **types)).text


def test_subtraction_of_a_number_from_a_constant() -> None:
    """`x - 1.5` stands for the addition of -1.5 where simplification leaves constants as they are."""

    def shifted(x: ir.Value) -> ir.Value:
        table = ops.iota(shape=(2, 3), axis=1, dtype="float32")
        return ops.mul(x, ops.add(ops.exp(table), number(-1.5, "float32")))

    assert "- 1.5" in generate(program(shifted, x="float32[2, 3]"), plain=False).text


def test_every_program_has_the_fallback_notation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fallback notation, as functions alone: each of these programs is written in it."""
    real: Any = generating._written

    def fallback(*arguments: Any) -> Any:
        return real(*arguments[:-1], replace(arguments[-1], plain=True))

    monkeypatch.setattr(generating, "_written", fallback)
    for seed in range(SEED, SEED + COUNT // 2):
        assert generate(build(seed), plain=False).text
