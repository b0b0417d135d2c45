"""Random programs compute the same with and without optimisation, and verify after every pass."""

from __future__ import annotations

import random as chance
from collections.abc import Callable

import numpy as np
import pytest

from burn.codegen.cpu.passes import PIPELINE
from burn.compiler import environment
from burn.dialect import ops
from burn.dialect.compose import convert, number_like
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.passes import pipeline
from burn.passes.verify import Verify
from tests.passes.cases import PLAIN, inputs, run

N = symbol("n")
SHAPES: tuple[tuple[Dim, ...], ...] = ((N, 4, 6), (N, 4, 6), (N, 1, 6), (4, 6), (6,), (N, 4, 1), (1, 1, 6), (N, 6, 4))
NUMBERS = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 0.25)
LENGTH = 14

UNARY = ("neg", "abs", "floor", "ceil", "sign", "relu", "tanh", "sigmoid", "round")
BINARY = ("add", "sub", "mul", "min", "max")


class Maker:
    """Builds a program op by op from a stream of choices."""

    def __init__(self, seed: int) -> None:
        self.pick = chance.Random(seed)
        self.program = Program.create(
            [(f"x{i}", TensorType("float32", shape)) for i, shape in enumerate(SHAPES[:5])]
            + [("flag", TensorType("bool", (N, 4, 6)))]
        )
        self.values: list[ir.Value] = []

    def make(self) -> Program:
        with self.program.building("node"):
            self.values = list(self.program.inputs[:-1])
            for shape in ((6, 6), (4, 6), (1, 4, 1)):
                array = np.random.default_rng(len(self.values)).standard_normal([int(d) for d in shape]).astype("f4")
                key = self.program.weights.add_array(array, "w")
                self.values.append(ops.weight(key=key, shape=shape, dtype="float32"))
            for _ in range(LENGTH):
                made = self.pick.choice(STEPS)(self)
                if made is not None:
                    self.values.append(made)
        chosen = [v for v in self.values if not any(True for _ in v.uses)]
        return self.program.finish([(f"y{i}", v) for i, v in enumerate(chosen)])

    def value(self) -> ir.Value:
        recent = self.values[-6:] if self.pick.random() < 0.7 else self.values
        return self.pick.choice(recent)

    def unary(self) -> ir.Value:
        return getattr(ops, self.pick.choice(UNARY))(self.value())

    def binary(self) -> ir.Value | None:
        a, b = self.value(), self.value()
        if not compatible(type_of(a).shape, type_of(b).shape):
            return None
        return getattr(ops, self.pick.choice(BINARY))(a, b)

    def with_number(self) -> ir.Value:
        x = self.value()
        number = number_like(self.pick.choice(NUMBERS), x)
        name = self.pick.choice((*BINARY, "pow", "div"))
        if name == "pow":
            return ops.pow(ops.abs(x), number_like(self.pick.choice((0.0, 1.0, 2.0, 3.0, 0.5)), x))
        if name == "div":
            number = number_like(self.pick.choice((2.0, 3.0, -0.5)), x)
        return (
            getattr(ops, name)(number, x)
            if name in ("add", "mul", "sub") and self.pick.random() < 0.4
            else (getattr(ops, name)(x, number))
        )

    def transpose(self) -> ir.Value:
        x = self.value()
        order = list(range(type_of(x).rank))
        self.pick.shuffle(order)
        return ops.transpose(x, permutation=tuple(order))

    def reshape(self) -> ir.Value | None:
        x = self.value()
        elements = type_of(x).elements
        fits = [s for s in (*SHAPES, (N, 24), (4 * N, 6), (24,), (2, 12), (N, 2, 2, 6)) if element_count(s) == elements]
        return ops.reshape(x, shape=self.pick.choice(fits)) if fits else None

    def reduce(self) -> ir.Value | None:
        x = self.value()
        rank = type_of(x).rank
        if rank == 0:
            return None
        axes = tuple(sorted(self.pick.sample(range(rank), self.pick.randint(1, rank))))
        return ops.reduce(x, kind=self.pick.choice(("sum", "max")), axes=axes, keepdims=self.pick.random() < 0.5)

    def slice(self) -> ir.Value | None:
        x = type_of(value := self.value())
        axis = self.pick.randrange(x.rank) if x.rank else 0
        length = x.shape[axis] if x.rank else 0
        if not isinstance(length, int) or length < 2:
            return None
        start = self.pick.randrange(length - 1)
        size = self.pick.randint(1, length - start)
        starts = tuple(start if i == axis else 0 for i in range(x.rank))
        sizes = tuple(size if i == axis else d for i, d in enumerate(x.shape))
        return ops.slice(value, starts=starts, sizes=sizes, steps=(1,) * x.rank)

    def concat(self) -> ir.Value | None:
        value = self.value()
        rank = type_of(value).rank
        return ops.concat([value, value], axis=self.pick.randrange(rank)) if rank else None

    def dot(self) -> ir.Value | None:
        x = self.value()
        if not type_of(x).shape or type_of(x).shape[-1] != 6:
            return None
        w = next(v for v in self.values if type_of(v).shape == (6, 6))
        rank = type_of(x).rank
        return ops.dot_general(x, w, lhs_contract=(rank - 1,), rhs_contract=(self.pick.randrange(2),))

    def select(self) -> ir.Value | None:
        a, b = self.value(), self.value()
        flag = self.program.inputs[-1]
        shapes = [type_of(v).shape for v in (a, b, flag)]
        if not all(compatible(s, t) for s in shapes for t in shapes):
            return None
        return ops.select(ops.not_(flag) if self.pick.random() < 0.5 else flag, a, b)

    def cast(self) -> ir.Value:
        x = self.value()
        return convert(convert(x, "float64"), "float32")


STEPS: tuple[Callable[[Maker], ir.Value | None], ...] = (
    Maker.unary, Maker.binary, Maker.binary, Maker.with_number, Maker.with_number, Maker.with_number, Maker.transpose,
    Maker.reshape, Maker.reduce, Maker.slice, Maker.concat, Maker.dot, Maker.dot, Maker.select, Maker.cast,
)  # fmt: skip


def element_count(shape: tuple[Dim, ...]) -> Dim:
    total: Dim = 1
    for d in shape:
        total = total * d
    return total


def compatible(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1], strict=False))


@pytest.mark.parametrize("seed", [*range(15), *(pytest.param(n, marks=pytest.mark.slow) for n in range(15, 40))])
def test_random_program(seed: int) -> None:
    original, program = Maker(seed).make(), Maker(seed).make()
    pipeline.run(pipeline.parse(PIPELINE.text), program, environment(), after=lambda each: Verify().run(program))
    arrays = inputs(original, special=False)
    want = run(original, PLAIN, arrays)
    got = run(program, "verify", arrays)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        scale = max(1.0, float(np.abs(b).max(initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * scale)
