"""The pass `partition` as text, and its reading of options. tests/distributed/test_spmd.py runs what it makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from burn.dialect import ops
from burn.dialect.adjoint import gradients
from burn.dialect.collective import COLLECTIVES
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype, type_of
from burn.errors import CompileError
from burn.kernels.liveness import Liveness
from burn.passes import pipeline
from burn.passes.sharding.grid import Grid
from tests.fuzz.sharding.devices import run
from tests.importers.reference import evaluate
from tests.passes.cases import Case, cases, check, read, text_of

CASES = cases(Path(__file__).parent / "partition")


def partitioned(case: Case) -> str:
    program = read(case)
    pipeline.run(pipeline.parse(case.passes), program)
    return text_of(program)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case) -> None:
    output = partitioned(case)
    assert check(case, output) == 0, f"\n{output}"
    assert check(case, text_of(read(case))) != 0


def test_all_devices_have_the_same_ops() -> None:
    """Programs differ in the offsets of blocks alone, so that collectives meet."""
    for case in CASES:
        found = set()
        for rank in range(4 if "model" in case.passes else 2):
            program = read(case)
            passes = case.passes.replace("rank=0", "").replace("rank=1", "").replace("rank=3", "")
            pipeline.run(pipeline.parse(passes.replace("{", f"{{rank={rank} ", 1)), program)
            found.add(tuple(op.operation.name for op in program.block.operations))
        assert len(found) == 1, case.name


def built(body: Callable[..., list[ir.Value]], *shapes: tuple[int, ...]) -> Program:
    """A program of float32 inputs."""
    program = Program.create([(f"x{i}", TensorType("float32", shape)) for i, shape in enumerate(shapes)])
    with context(), program.building():
        results = body(*program.inputs)
    return program.finish([(f"y{i}", value) for i, value in enumerate(results)])


def collectives(program: Program) -> list[str]:
    return [str(op.operation) for op in program.block.operations if isinstance(op.operation.opview, COLLECTIVES)]


def of_devices(make: Callable[[], Program], options: str) -> list[Program]:
    """The programs of two devices after `simplify`."""
    programs = [make() for _ in range(2)]
    for rank, program in enumerate(programs):
        pipeline.run(pipeline.parse(f"partition{{mesh=data:2 rank={rank} wait {options}}},simplify"), program)
    return programs


def test_a_gather_that_one_device_alone_does_not_read_stays() -> None:
    """Each device reads one half of the concatenation, which is one operand's."""

    def body(x: ir.Value, y: ir.Value) -> list[ir.Value]:
        return [ops.exp(ops.concat([x, y], axis=0))]

    found = of_devices(lambda: built(body, (8, 4), (8, 4)), "inputs=data;data outputs=data")
    kinds = [[text.split("(")[0].split(" = ")[-1] for text in collectives(program)] for program in found]
    assert kinds[0] == kinds[1] and kinds[0] == ['"burn.all_gather"']
    for program in found:
        waits = [op for op in program.block.operations if op.operation.name == "burn.collective_wait"]
        live = Liveness(program.block)
        names = [op.name for op in live.operations]
        awaited = names.index("burn.collective_wait") + 1
        (gather,) = [op.operation for op in program.block.operations if isinstance(op.operation.opview, COLLECTIVES)]
        assert len(waits) == 2, "a result that nothing reads is written, too"
        assert all(live.range(value)[1] >= awaited for value in (*gather.operands, *gather.results))


@pytest.mark.parametrize("between", [22, 23, 24, 25, 26])
def test_buckets_are_those_of_all_devices(between: int) -> None:
    """Ops are counted between a collective and the first use of its result. A device at position 0 has no fewer."""

    def body(w: ir.Value, v: ir.Value, y: ir.Value) -> list[ir.Value]:
        z = ops.mul(y, ops.iota(shape=(8, 4), axis=0, dtype="float32"))
        for _ in range(between):
            z = ops.tanh(z)
        return [z, ops.sort(v, axis=0)[0], ops.sort(w, axis=0)[0]]

    found = of_devices(lambda: built(body, (8, 4), (8, 4), (8, 4)), "inputs=data;data;data outputs=data;-;-")
    texts = [[text.split(" = ", 1)[1] for text in collectives(program)] for program in found]
    assert texts[0] == texts[1]


def test_effects_stay_in_order() -> None:
    """The first text waits for the last collective."""
    program = Program.create([(f"x{i}", TensorType("float32", (8, 4))) for i in range(2)])
    with context(), program.building():
        x, y = program.inputs
        early = ops.reduce(x, kind="sum", axes=(0,))
        late = ops.reduce(ops.tanh(ops.exp(ops.mul(y, y))), kind="sum", axes=(0,))
        ops.debug_print([late], text="1: {}")
        ops.debug_print([early], text="2: {}")
        ops.debug_print([], text="3")
        results = [ops.exp(early), ops.exp(late)]
    program.finish([("a", results[0]), ("b", results[1])])
    pipeline.run(pipeline.parse("partition{mesh=data:2 wait bucket=1 batch=2 inputs=data;data}"), program)
    printed = [op.operation.opview for op in program.block.operations if op.operation.name == "burn.debug_print"]
    assert [op.text for op in printed] == ["1: {}", "2: {}", "3"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_extremes_keep_nan(dtype: str, kind: str) -> None:
    """Also where collectives ignore NaN, as NCCL's do."""
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, 1.5, -1.5, 1e-7, -3.0])
    pairs = np.array(np.meshgrid(special, special)).reshape(2, -1).astype(numpy_dtype(dtype))
    programs = []
    for rank in range(2):
        program = Program.create([("x", TensorType(dtype, pairs.shape))])
        with context(), program.building():
            y = ops.reduce(program.inputs[0], kind=kind, axes=(0,))
        programs.append(program.finish([("y", y)]))
        pipeline.run(pipeline.parse(f"partition{{mesh=data:2 rank={rank} inputs=data wait}},simplify"), program)
    wide = pairs.astype(np.float64)
    want = np.maximum(*wide) if kind == "max" else np.minimum(*wide)
    for (found,) in run(programs, [[pairs[:1]], [pairs[1:]]]):
        assert found.dtype == numpy_dtype(dtype)
        np.testing.assert_array_equal(found.astype(np.float64), want)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_attention_and_gradients(rate: float) -> None:
    """Batch entries and heads are divided, unless dropout draws numbers for the whole. The gradient of a mask that broadcasts
    along the batch is a sum over devices."""
    shapes = [(4, 2, 5, 3), (4, 2, 7, 3), (4, 2, 7, 2), (1, 2, 5, 7), (4, 2, 5, 2)]
    types = [TensorType("float32", shape) for shape in shapes]

    def make() -> Program:
        program = Program.create([*zip("qkvmg", types, strict=True), ("key", TensorType("uint32", (2,)))])
        with context(), program.building():
            q, k, v, mask, g, key = program.inputs
            y = ops.attention(q, k, v, mask, None, key if rate else None, scale=0.5, causal=True, rate=rate)
            found = gradients([y], [g], [q, k, v, mask])
            y = next(op.results[0] for op in program.block.operations if op.name == "burn.attention_forward")
        return program.finish([(f"y{i}", x) for i, x in enumerate([y, *found]) if x is not None])

    rng = np.random.default_rng(0)
    arrays: list[np.ndarray] = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    arrays.append(np.array([3, 5], np.uint32))
    whole = make()
    want = evaluate(whole, dict(zip(whole.input_names, arrays, strict=True))).values()
    programs = of_devices(make, "inputs=data;data;data;-;data;- outputs=data;data;data;data;-")
    kept = [str(type_of(op.q).shape[0]) for op in programs[0].block.operations if op.name.startswith("burn.attention")]
    assert kept == ["4" if rate else "2"] * 2
    given = [[x[rank * 2 :][:2] if n in (0, 1, 2, 4) else x for n, x in enumerate(arrays)] for rank in range(2)]
    for rank, found in enumerate(run(programs, given)):
        for n, (a, b) in enumerate(zip(found, want, strict=True)):
            np.testing.assert_allclose(a, b[rank * 2 :][:2] if n < 4 else b, rtol=1e-5, atol=1e-5)


def test_groups() -> None:
    grid = Grid({"a": 2, "b": 3}, rank=4)
    assert grid.coordinates == {"a": 1, "b": 1} and grid.position(("b", "a")) == 3
    assert grid.groups(("b",)) == (0, 1, 2, 3, 4, 5) and grid.groups(("a",)) == (0, 3, 1, 4, 2, 5)
    assert grid.groups(("b", "a")) == (0, 3, 1, 4, 2, 5) and grid.groups(("a", "b")) == tuple(range(6))
    moved = Grid({"a": 2, "b": 2}, rank=3, ranks=(3, 1, 2, 0))
    assert moved.coordinates == {"a": 0, "b": 0} and moved.groups(("a",)) == (3, 2, 1, 0)


def test_too_many_shardings() -> None:
    with pytest.raises(CompileError, match="3 shardings are given for 1 values"):
        pipeline.run(pipeline.parse("partition{mesh=data:2 inputs=data;-;-}"), read(CASES[1]))
