"""Fusion never makes groups that depend on each other: random programs of square tensors, for each device's preferences.

Where all axes have one size, a tensor and its transpose have the same shape, so that loops of both become one group. No code is
generated, so a program takes milliseconds. BURN_SWEEP=3000 draws so many, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.target import TARGETS
from burn.codegen.triton.heuristics.preferences import PREFERENCES as GPU
from burn.dialect import ops
from burn.dialect.compose import number_like
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.kernels.preferences import Preferences
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.passes.fuse import Fuse
from burn.passes.fusion.cluster import Cluster, Order, leads_to
from burn.passes.verify import Verify
from tests.kernels.interpreting import interpreted
from tests.passes.cases import PLAIN, inputs, run

CPU = preferences_of(TARGETS["avx2"])

SIZE, RANK = 12, 4
SQUARE = (SIZE,) * RANK
"""More elements than a kernel stores one by one (`choice.FEW`)."""
UNARY = ("neg", "abs", "relu", "tanh", "sigmoid", "exp")
BINARY = ("add", "sub", "mul", "max")
MIXED = (3, 8, 5, 2, 1, 1, 1)
NORMS = (1, 3, 4, 6, 0, 1, 0)
"""How often each kind of step is drawn: `Maker.step`."""
COUNT = int(os.environ.get("BURN_SWEEP", "60"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "1"))


class Maker:
    """A program of pointwise ops, transposed views, reductions, concats and matmuls, all of one square shape."""

    def __init__(self, seed: int, shape: tuple[int, ...] = SQUARE, weights: tuple[int, ...] = MIXED) -> None:
        self.chance, self.weights = random.Random(seed), weights
        self.shape, self.size, self.rank = shape, shape[0], len(shape)
        self.program = Program.create([(f"x{i}", TensorType("float32", shape)) for i in range(4)])
        self.values: list[ir.Value] = []

    def make(self) -> Program:
        with self.program.building("node"):
            self.values = list(self.program.inputs)
            for _ in range(self.chance.randint(4, 24)):
                self.values.append(self.step())
            unused = [v for v in self.values if not any(True for _ in v.uses)]
        return self.program.finish([(f"y{i}", v) for i, v in enumerate(unused)])

    def value(self) -> ir.Value:
        return self.chance.choice(self.values[-5:] if self.chance.random() < 0.7 else self.values)

    def step(self) -> ir.Value:
        kind = self.chance.choices(("unary", "binary", "turn", "reduce", "join", "matmul", "part"), self.weights)[0]
        return getattr(self, kind)(self.value())

    def unary(self, x: ir.Value) -> ir.Value:
        return getattr(ops, self.chance.choice(UNARY))(x)

    def binary(self, x: ir.Value) -> ir.Value:
        return getattr(ops, self.chance.choice(BINARY))(x, self.value())

    def turn(self, x: ir.Value) -> ir.Value:
        return ops.transpose(x, permutation=tuple(self.chance.sample(range(self.rank), self.rank)))

    def reduce(self, x: ir.Value) -> ir.Value:
        axes = tuple(sorted(self.chance.sample(range(self.rank), self.chance.randint(1, self.rank))))
        centred = x if self.chance.random() < 0.5 else self.value()
        return ops.sub(centred, ops.reduce(x, kind=self.chance.choice(("sum", "max")), axes=axes, keepdims=True))

    def join(self, x: ir.Value) -> ir.Value:
        axis, half = (
            self.chance.randrange(self.rank),
            tuple(self.size // 2 if i == 0 else d for i, d in enumerate(self.shape)),
        )
        first = ops.slice(x, starts=(0,) * self.rank, sizes=half, steps=(1,) * self.rank)
        second = ops.slice(
            self.value(), starts=(self.size // 2, *(0,) * (self.rank - 1)), sizes=half, steps=(1,) * self.rank
        )
        joined = ops.concat([first, second], axis=0)
        return joined if axis else ops.neg(joined)

    def matmul(self, x: ir.Value) -> ir.Value:
        batch = tuple(range(self.rank - 2))
        attrs = {
            "lhs_batch": batch,
            "rhs_batch": batch,
            "lhs_contract": (self.rank - 1,),
            "rhs_contract": (self.rank - 2,),
        }
        return ops.dot_general(x, self.value(), **attrs)

    def part(self, x: ir.Value) -> ir.Value:
        axis = self.chance.randrange(self.rank)
        starts = tuple(self.size - 1 if i == axis else 0 for i in range(self.rank))
        steps = tuple(-1 if i == axis else 1 for i in range(self.rank))
        return ops.slice(x, starts=starts, sizes=self.shape, steps=steps)


def fused(program: Program, preferences: Any) -> Program:
    Fuse().run(program, Environment(SimpleNamespace(preferences=preferences)))  # type: ignore[arg-type]
    Verify().run(program)
    alone = {op.operation.name for op in program.block.operations} & {"burn.transpose", "burn.slice"}
    assert not alone, f"in no group: {', '.join(alone)}"  # only a reshape has no kernel
    return program


@pytest.mark.parametrize("preferences", [CPU, GPU], ids=["cpu", "gpu"])
def test_groups_never_need_each_other(preferences: Any) -> None:
    for seed in range(SEED, SEED + COUNT):
        try:
            fused(Maker(seed).make(), preferences)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_groups_compute_the_same(seed: int) -> None:
    program, plain = Maker(seed).make(), Maker(seed).make()
    arrays = inputs(plain, special=False)
    for a, b in zip(run(program, "fuse,release", arrays), run(plain, PLAIN, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_kernels_of_small_programs_compute_the_same() -> None:
    """Interpreted kernels for a GPU's preferences, compared with one kernel for each op. Six rows are enough to reduce columns in
    the kernel of the rows."""
    preferences = replace(GPU, column_reduction_blocks=2, column_reduction_rows=2)
    for seed in range(SEED, SEED + COUNT):
        program, plain = Maker(seed, (6, 6), NORMS).make(), Maker(seed, (6, 6), NORMS).make()
        arrays = [x * 0.1 for x in inputs(plain, special=False)]
        pipeline.run(pipeline.parse("decompose,fuse{max-ops=1},release"), plain, Environment())
        pipeline.run(pipeline.parse("decompose"), program, Environment())
        with np.errstate(all="ignore"):
            want = interpreted(plain, arrays, preferences=Preferences())
            got = interpreted(fused(program, preferences), arrays, preferences=preferences)
        for a, b in zip(got, want, strict=True):
            scale = np.abs(b).max(initial=0.0)
            if np.isfinite(scale) and scale < 1e6:  # beyond, differences of rounding are as large as results
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * max(1.0, scale), err_msg=f"seed {seed}")


def test_a_turned_value_of_the_loop_itself() -> None:
    """A loop that walks through many tensors has what is turned turned beforehand, but not what it computes itself."""
    program = Program.create([(f"x{i}", TensorType("float32", SQUARE)) for i in range(3)])
    with program.building("node"):
        x, y, z = program.inputs
        gate = ops.sigmoid(x)
        turned = ops.mul(ops.add(y, z), ops.transpose(gate, permutation=(0, 2, 3, 1)))
        outputs = [turned, ops.mul(x, ops.sub(number_like(1.0, gate), gate))]
    assert type_of(turned).shape == SQUARE
    fused(program.finish([(f"y{i}", v) for i, v in enumerate(outputs)]), CPU)


def test_a_row_of_another_reduction_that_is_transposed() -> None:
    """Two reductions of one space are one kernel only if the second reads the first at its own row."""
    program = Program.create([("x", TensorType("float32", (SIZE, SIZE)))])
    with program.building("node"):
        (x,) = program.inputs
        for _ in range(2):
            centred = ops.sub(x, ops.reduce(x, kind="sum", axes=(1,), keepdims=True))
            x = ops.transpose(centred, permutation=(1, 0))
        outputs = [centred, ops.add(centred, x)]
    program = fused(program.finish([(f"y{i}", v) for i, v in enumerate(outputs)]), GPU)
    for each in program.block.operations:
        if each.operation.name == "burn.group":
            inside = [op.operation.name for op in each.regions[0].blocks[0].operations]
            assert inside.count("burn.reduce") < 2


def test_a_merged_group_does_not_depend_on_itself() -> None:
    """Others then see which groups it really depends on."""
    first, second, third = (Cluster("loop", ()) for _ in range(3))
    order = Order()
    for cluster, needs in ((first, ()), (second, (first,)), (third, (first, second))):
        order.add(cluster, needs)
    order.replace(second, third)
    assert third.needs == {first} and first.users == {third}
    assert not leads_to(third.needs - {first}, first)
