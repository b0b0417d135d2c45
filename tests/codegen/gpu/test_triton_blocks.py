"""Blocks that are transposed, kept in registers and cut: each way in which a loop kernel walks memory is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from burn.codegen.triton.backend import GPU
from burn.codegen.triton.blocks import Layout, layout
from burn.codegen.triton.heuristics.loops import rows_and_columns
from burn.codegen.triton.heuristics.preferences import PREFERENCES
from burn.codegen.triton.heuristics.sizes import hinted_sizes
from burn.codegen.triton.kernels import KernelPrinter
from burn.dialect import ops
from burn.dialect.dims import coefficient, parse
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.kernels.body import Apply, Kernel, Load, LoopKernel, Scalar, walk
from burn.kernels.builders import kernels
from burn.kernels.preferences import Preferences
from burn.kernels.rewrite import collapse
from burn.kernels.text import groups
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.kernels.interpreting import agree, interpreted
from tests.passes.cases import random

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
pytest.importorskip("torch")

Shape = tuple[int | str, ...]
Function = Callable[..., Any]


def program(function: Function, *shapes: Shape, dtype: str = "float32") -> Program:
    types = [TensorType(dtype, tuple(parse(d) if isinstance(d, str) else d for d in shape)) for shape in shapes]
    made = Program.create([(f"x{i}", t) for i, t in enumerate(types)])
    with made.building("node"):
        y = function(*made.inputs)
    results = y if isinstance(y, tuple) else (y,)
    made.finish([(f"y{i}", result) for i, result in enumerate(results)])
    pipeline.run(pipeline.parse("decompose,fuse"), made, Environment(GPU()))
    return made


def numbers(
    function: Function,
    want: Function,
    *shapes: Shape,
    dtype: str = "float32",
    preferences: Preferences = PREFERENCES,
    **sizes: int,
) -> None:
    """want: the same in numpy, of arrays of float64."""
    made = program(function, *shapes, dtype=dtype)
    arrays = [random(t, sizes, i) for i, t in enumerate(made.input_types)]
    (got,) = interpreted(made, arrays, simulated.Simulator().launch, preferences)
    expected = want(*(x.astype(np.float64) for x in arrays))
    assert got.shape == expected.shape
    tolerance = 4e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def turn(*permutation: int) -> Function:
    return lambda x: ops.neg(ops.transpose(x, permutation=permutation))


def total(axis: int, kind: str = "sum") -> Function:
    return lambda x: ops.reduce(x, kind=kind, axes=(axis,))


TURNS = [
    ((67, 70), (1, 0)),
    ((3, 33, 40), (0, 2, 1)),
    ((33, 3, 9), (2, 1, 0)),
    ((2, 9, 130), (2, 0, 1)),
    ((64, 64), (1, 0)),
]


@pytest.mark.parametrize(("shape", "permutation"), TURNS)
def test_turned(shape: Shape, permutation: tuple[int, ...]) -> None:
    numbers(turn(*permutation), lambda x: -x.transpose(permutation), shape)


@pytest.mark.parametrize("n", [0, 1, 35])
def test_turned_with_a_size_that_has_a_name(n: int) -> None:
    numbers(turn(0, 2, 1), lambda x: -x.transpose(0, 2, 1), (2, "n", 11), n=n)


def test_turned_behind_a_pad_beside_others() -> None:
    def function(x: Any, y: Any) -> Any:
        value = ops.full(shape=(), value=0.5, dtype="float16")
        return ops.add(ops.pad(ops.transpose(x, permutation=(1, 0)), value, low=(2, 1), high=(0, 3)), y)

    def want(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.pad(x.T, ((2, 0), (1, 3)), constant_values=0.5) + y

    numbers(function, want, (33, 40), (42, 37), dtype="float16")


@pytest.mark.parametrize(
    ("hint", "columns", "rows"), [(None, 64, 64), (1, 1, 1024), (5, 8, 128), (32, 32, 64), (4096, 64, 64)]
)
def test_a_block_of_rows_with_a_name_has_the_hinted_columns(hint: int | None, columns: int, rows: int) -> None:
    block = rows_and_columns(1 << 22, parse("n"), True, False, 132, hint)
    assert (block.rows, block.columns) == (rows, columns)
    block = rows_and_columns(1 << 22, parse("n"), False, False, 132, hint)
    assert block.columns == (2048 if hint is None or hint > 2048 else 1 << (hint - 1).bit_length())


@pytest.mark.parametrize("n", [0, 1, 7, 40])
@pytest.mark.parametrize("axis", [1, 2])
def test_rows_with_a_name_are_of_any_length(n: int, axis: int) -> None:
    """Also longer than their hint."""
    made = program(total(axis), (3, "n", 21) if axis == 1 else (3, 21, "n"))
    simulator = simulated.Simulator()
    simulator.printer = KernelPrinter(hints=hinted_sizes({"n": 2}))
    x = random(made.input_types[0], {"n": n}, n)
    (got,) = interpreted(made, [x], simulator.launch, PREFERENCES)
    assert any(p.constants.get("COLUMNS") == 2 for p in simulator.printer.functions.values())
    np.testing.assert_allclose(got, x.astype(np.float64).sum(axis), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize(("shape", "axis"), [((71, 33), 0), ((3, 19, 10), 1), ((1, 9), 0), ((5, 1), 0)])
def test_reduced_downwards(shape: Shape, axis: int, kind: str) -> None:
    numbers(total(axis, kind), lambda x: getattr(x, kind)(axis), shape)


@pytest.mark.parametrize("n", [0, 1, 70])
def test_rows_without_a_number(n: int) -> None:
    numbers(total(0), lambda x: x.sum(0), ("n", 33), n=n)


@pytest.mark.parametrize("shape", [(1201, 65), (8, 1201, 9)])
def test_columns_summed_in_blocks_of_rows(shape: Shape) -> None:
    axes = tuple(range(len(shape) - 1))

    def function(x: Any) -> Any:
        return ops.sqrt(ops.reduce(ops.mul(x, x), kind="sum", axes=axes))

    numbers(function, lambda x: np.sqrt((x * x).sum(axes)), shape)


@pytest.mark.parametrize("n", [1, 1201, 1300])
def test_summed_in_blocks_of_rows_while_written(n: int) -> None:
    """Blocks of rows read results of an expensive elementwise stage, once all its elements are written."""

    def function(x: Any) -> Any:
        written = ops.cast(ops.exp(x), dtype="bfloat16")
        return written, ops.reduce(ops.cast(written, dtype="float32"), kind="sum", axes=(0,))

    made = program(function, ("n", 65))
    x = random(made.input_types[0], {"n": n}, 0)
    written, sums = interpreted(made, [x], simulated.Simulator().launch, PREFERENCES)
    np.testing.assert_allclose(written.astype("float32"), np.exp(x), rtol=1e-2)
    np.testing.assert_allclose(sums, written.astype(np.float64).sum(0), rtol=1e-4, atol=1e-4)
    with context():
        elements, blocks, _joined = (c for g in groups(made.block) for c in kernels(g, GPU().preferences))
    made_by = [{n.function for n in walk(*_scalars(c.kernel)) if isinstance(n, Apply)} for c in (elements, blocks)]
    assert ["exp" in functions for functions in made_by] == [True, False]


def _scalars(kernel: Kernel) -> list[Scalar]:
    assert isinstance(kernel, LoopKernel)
    return [x for stage in kernel.stages for x in stage.scalars]


@pytest.mark.parametrize(("shape", "axis"), [((71, 33), 0), ((5, 1201), 1), ((3, 19, 10), 1)])
def test_summed_while_written(shape: Shape, axis: int) -> None:
    """One stage does both: the elements are read once."""

    def function(x: Any) -> Any:
        squares = ops.mul(x, x)
        return squares, ops.reduce(squares, kind="sum", axes=(axis,))

    made = program(function, shape)
    x = random(made.input_types[0], {}, 0)
    squares, sums = interpreted(made, [x], simulated.Simulator().launch, PREFERENCES)
    np.testing.assert_allclose(squares, x * x, rtol=1e-6)
    np.testing.assert_allclose(sums, (x.astype(np.float64) ** 2).sum(axis), rtol=1e-5)
    with context():
        (call,) = (c for g in groups(made.block) for c in kernels(g, GPU().preferences))
        assert isinstance(call.kernel, LoopKernel) and len([s for s in call.kernel.stages if s.loops]) == 1


FAR = 1000.0
"""How far from zero columns are whose variance is 1: the squares of that have none of float32's digits left for it."""


def deviation(x: Any) -> Any:
    """Of columns far from zero; what is returned is near it, times that."""

    def mean(y: Any) -> Any:
        n, m, _ = type_of(y).shape
        count = ops.cast(ops.dim_values(dims=(n * m,), scalar=True), dtype="float32")
        return ops.div(ops.reduce(y, kind="sum", axes=(0, 1), keepdims=True), count)

    far = ops.add(x, ops.full(shape=(), value=FAR, dtype="float32"))
    apart = ops.sub(far, mean(far))
    return ops.mul(x, ops.sqrt(mean(ops.mul(apart, apart))))


def of_columns(x: np.ndarray) -> np.ndarray:
    far = (x.astype(np.float32) + np.float32(FAR)).astype(np.float64)
    return x * far.std((0, 1))


@pytest.mark.parametrize("n", [2, 5, 24])
def test_a_variance_in_one_pass_over_blocks_of_rows(n: int) -> None:
    preferences = replace(PREFERENCES, reduce_rows=lambda kept, rows: 16)
    made = program(deviation, ("n", 13, 9))
    with context():
        _, joined, columns = [kernels(group, preferences) for group in groups(made.block)][
            -1
        ]  # behind blocks of rows, and what joins them
    assert isinstance(joined.kernel, LoopKernel) and isinstance(columns.kernel, LoopKernel)
    (block,) = joined.kernel.stages[0].loops
    read = [n for s in joined.kernel.stages[:2] for n in walk(*s.scalars) if isinstance(n, Load)]
    assert {joined.bindings[n.buffer] for n in read} == {("shared", 0), ("shared", 1), ("shared", 2)}
    assert {coefficient(n.offset, block) for n in read} == {1}  # a column's partial results are adjacent
    scalars = walk(*(x for stage in columns.kernel.stages for x in stage.scalars))
    assert [node.function for node in scalars if isinstance(node, Apply)] == ["mul"]  # roots are taken once a column
    numbers(deviation, of_columns, ("n", 13, 9), preferences=preferences, n=n)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("shape", [(37, 5), (1100, 3)])
def test_softmax_downwards(shape: Shape) -> None:
    numbers(lambda x: ops.softmax(x, axis=0), lambda x: softmax(x, 0), shape)


def test_descending_indices() -> None:
    numbers(lambda x: ops.arg_reduce(x, kind="max", axis=0), lambda x: x.argmax(0), (13, 5))


@pytest.mark.parametrize("shape", [(70, 5), (2, 4097), (1, 17000)])
def test_rows_of_all_lengths(shape: Shape) -> None:
    numbers(lambda x: ops.softmax(x, axis=1), lambda x: softmax(x, 1), shape)
    numbers(total(1), lambda x: x.sum(1), shape)


def test_few_long_rows_in_blocks() -> None:
    preferences = replace(PREFERENCES, long_rows=1024)
    numbers(lambda x: ops.softmax(x, axis=1), lambda x: softmax(x, 1), (1, 1301), preferences=preferences)
    numbers(lambda x: total(2)(ops.exp(x)), lambda x: np.exp(x).sum(2), (2, 1, 1024), preferences=preferences)


def widened(x: Any) -> Any:
    return ops.mul(ops.cast(x, dtype="float32"), ops.full(shape=(), value=2.0, dtype="float32"))


def contracted(x: Any, y: Any) -> Any:
    return ops.dot_general(x, y, lhs_batch=(), rhs_batch=(), lhs_contract=(1,), rhs_contract=(0,))


SMALL = [
    (lambda x, w: ops.add(ops.cast(x, dtype="float32"), widened(w)), [(40, 33), (33,)], 1),
    (lambda x, w: ops.add(x, ops.cast(widened(w), dtype="float16")), [(40, 33), (33,)], 1),
    (lambda x, w: ops.mul(ops.softmax(ops.cast(x, dtype="float32"), axis=1), widened(w)), [(40, 33), (33,)], 1),
    (lambda x, y, w: ops.add(ops.cast(contracted(x, y), dtype="float32"), widened(w)), [(40, 9), (9, 33), (33,)], 1),
    (lambda x, w: ops.add(ops.cast(x, dtype="float32"), widened(w)), [(4, 33), (33,)], 2),  # not so small
    (lambda x, w: ops.add(ops.cast(x, dtype="float32"), ops.exp(widened(w))), [(40, 33), (33,)], 2),  # costly
]


@pytest.mark.parametrize(("function", "shapes", "want"), SMALL)
def test_what_is_small_is_computed_where_it_is_read(function: Function, shapes: list[Shape], want: int) -> None:
    made = program(function, *shapes, dtype="float16")
    assert len(list(groups(made.block))) == want
    arrays = [random(t, {}, i) for i, t in enumerate(made.input_types)]
    with context():
        (got,) = interpreted(made, arrays, simulated.Simulator().launch, GPU().preferences)
        agree([got], interpreted(made, arrays, preferences=GPU().preferences))


LAYOUTS = [
    (turn(1, 0), (67, 70), Layout((1,), across=0)),
    (turn(2, 1, 0), (33, 3, 9), Layout((1, 2), across=0)),
    (turn(1, 0), (67, 3), Layout((0, 1))),  # too narrow to pay
    (lambda x: ops.neg(x), (67, 70), Layout((0,))),
    (total(0), (50, 33), Layout((0,), transposed=True)),
    (total(1), (50, 33), Layout((0,))),
    (lambda x: total(1)(ops.transpose(x, permutation=(2, 1, 0))), (9, 3, 33), Layout((1, 0), transposed=True)),
]


def layout_of(function: Function, *shapes: Shape) -> Layout:
    made = program(function, *shapes)
    with context():
        (call,) = (c for g in groups(made.block) for c in kernels(g, GPU().preferences))
        kernel = collapse(call.kernel)
        assert isinstance(kernel, LoopKernel)
        return layout(kernel)


@pytest.mark.parametrize(("function", "shape", "want"), LAYOUTS)
def test_layout(function: Function, shape: Shape, want: Layout) -> None:
    assert layout_of(function, shape) == want


def along_both(x: Any, y: Any) -> Any:
    """A layer scale's gradient, of operands with channels first and last."""
    return total(2)(ops.mul(x, ops.transpose(y, permutation=(0, 2, 1))))


def normalised(x: Any, y: Any) -> Any:
    """An instance norm's gradient."""
    x = ops.mul(x, ops.transpose(y, permutation=(0, 2, 1)))
    total = ops.reduce(
        ops.mul(x, ops.full(shape=(), value=0.001, dtype="float32")), kind="sum", axes=(2,), keepdims=True
    )
    return ops.mul(x, total)


def behind_a_reshape(x: Any, y: Any) -> Any:
    """The gradient of a scale of queries, keys and values, from those of three attention heads."""
    heads, images, rows, width = type_of(x).shape
    x = ops.reshape(ops.transpose(x, permutation=(1, 2, 0, 3)), shape=(images * rows, heads * width))
    return total(0)(ops.mul(x, y))


@pytest.mark.parametrize("rows", [50, 300, "n"])
def test_operands_contiguous_along_rows_and_along_columns(rows: int | str) -> None:
    assert layout_of(along_both, (3, 33, rows), (3, rows, 33)) == Layout((0, 1), mixed=True)
    numbers(along_both, lambda x, y: (x * y.transpose(0, 2, 1)).sum(2), (3, 33, rows), (3, rows, 33), n=131)


@pytest.mark.parametrize("length", [50, 2100])
def test_rows_that_are_read_twice_beside_columns(length: int) -> None:
    def want(x: Any, y: Any) -> Any:
        x = x * y.transpose(0, 2, 1)
        return x * (0.001 * x).sum(2, keepdims=True)

    assert layout_of(normalised, (3, 33, length), (3, length, 33)).mixed
    numbers(normalised, want, (3, 33, length), (3, length, 33))


def test_blocks_of_operands_contiguous_along_rows_and_along_columns() -> None:
    wide = rows_and_columns(4096, 3136, False, False, 132)
    mixed = rows_and_columns(4096, 3136, False, False, 132, mixed=True)
    assert (wide.rows, mixed.rows, mixed.columns) == (1, 8, 256)
    assert rows_and_columns(1 << 20, 3136, False, False, 132, mixed=True).rows == 16
    assert rows_and_columns(4096, 1536, False, True, 132, mixed=True).columns == 2048  # several stages read a row
    assert rows_and_columns(4096, 3136, False, True, 132, mixed=True) == mixed


@pytest.mark.parametrize(("heads", "width"), [(3, 64), (5, 8), (2, 9)])
def test_contiguous_columns_behind_a_reshape(heads: int, width: int) -> None:
    shapes = (heads, 2, 19, width), (38, heads * width)
    assert layout_of(behind_a_reshape, *shapes) == Layout((0,), transposed=True)
    numbers(
        behind_a_reshape,
        lambda x, y: (x.transpose(1, 2, 0, 3).reshape(y.shape) * y).sum(0),
        *shapes,
    )


def test_short_runs_behind_a_reshape_are_not_contiguous() -> None:
    assert layout_of(lambda x: behind_a_reshape(x, ops.full(shape=(), value=2.0, dtype="float32")), (40, 2, 19, 3)) == (
        Layout((0,))
    )


@pytest.mark.parametrize("rows", [50, "n"])
def test_what_a_row_has_once_does_not_outvote_its_elements(rows: int | str) -> None:
    """Sums of columns in parts (a norm's weight), where mean and deviation of each row are read beside its elements."""

    def function(x: Any, mean: Any, deviation: Any) -> Any:
        return total(1)(ops.mul(ops.sub(x, mean), deviation))

    assert layout_of(function, (3, rows, 33), (3, rows, 1), (3, rows, 1)) == Layout((0, 1), transposed=True)
