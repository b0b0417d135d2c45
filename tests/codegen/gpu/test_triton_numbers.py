"""Printed kernels run in Triton's interpreter, against the interpreter of kernels: cases of many kinds, random programs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn.codegen.triton.backend import GPU
from burn.codegen.triton.heuristics.preferences import PREFERENCES
from burn.dialect import ops
from burn.dialect.dims import Dim, symbol
from burn.dialect.program import Program
from burn.dialect.types import DTYPES, TensorType, numpy_dtype
from burn.errors import RunError
from burn.kernels.interpret import IndexOutOfRange
from burn.kernels.preferences import Preferences
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.kernels.interpreting import Arrays, Unsupported, agree, interpreted, sizes_of
from tests.kernels.test_second_opinion import CASES
from tests.passes.cases import PLAIN, Case, random, random_weights, read
from tests.passes.test_random import Maker

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
pytest.importorskip("torch")

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


def check(program: Program, arrays: Arrays, passes: str) -> None:
    pipeline.run(pipeline.parse(passes), program, Environment(GPU()))
    want = interpreted(program, arrays, preferences=GPU().preferences)
    agree(interpreted(program, arrays, simulated.Simulator().launch, GPU().preferences), want)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    program = read(case, random_weights(read(case)))
    sizes = dict.fromkeys(sizes_of(program), 3)
    arrays = [random(t, sizes, 100 + i, case.special) for i, t in enumerate(program.input_types)]
    try:
        check(program, arrays, PLAIN)
    except Unsupported:
        pytest.skip("holds something besides kernels")


@pytest.mark.parametrize(("seed", "n"), [(1000, 0), (1001, 1), (1004, 5), (1006, 5)])
def test_random_program(seed: int, n: int) -> None:
    program = Maker(seed).make()
    arrays = [random(t, {"n": n}, seed + i) for i, t in enumerate(program.input_types)]
    check(program, arrays, "simplify,recognise,decompose{keep=attention+windows},simplify,layout,simplify,fuse,release")


def test_long_rows_and_tiles_that_do_not_come_out_even() -> None:
    """More than a block of columns, rows and depth."""
    x = TensorType("float32", (1, 4999))
    program = Program.create([("x", x), ("a", TensorType("float32", (67, 33))), ("b", TensorType("float32", (33, 19)))])
    with program.building("node"):
        y = ops.softmax(program.inputs[0], axis=1)
        best = ops.arg_reduce(program.inputs[0], kind="max", axis=1)
        axes = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
        matmul = ops.tanh(ops.dot_general(*program.inputs[1:], **axes))
    program.finish([("y", y), ("best", best), ("product", matmul)])
    check(program, [random(t, {}, i) for i, t in enumerate(program.input_types)], "decompose,fuse")


@pytest.mark.parametrize(("n", "axis"), [(0, 0), (1, 1), (5, 0), (7, 1)])
def test_parts_that_are_computed_where_they_are_joined(n: int, axis: int) -> None:
    """A concat with two slices swapped, an empty part, a part that is read unchanged, and ops after it."""
    size = symbol("n")
    program = Program.create([("x", TensorType("float16", (size, 6))), ("y", TensorType("float32", (size, 3)))])
    x, y = program.inputs
    with program.building("node"):
        wide = ops.cast(x, dtype="float32")
        left, right = (ops.slice(wide, starts=(0, i), sizes=(size, 3), steps=(1, 1)) for i in (0, 3))
        parts = [ops.neg(ops.mul(right, y)), ops.mul(left, y), y]
        if axis:
            parts.insert(1, ops.slice(wide, starts=(0, 0), sizes=(size, 0), steps=(1, 1)))
        joined = ops.tanh(ops.concat(parts, axis=axis))
        sums = ops.reduce(joined, kind="sum", axes=(1 - axis,))
    program.finish([("joined", joined), ("sums", sums)])
    check(program, [random(t, {"n": n}, i) for i, t in enumerate(program.input_types)], "fuse")


@pytest.mark.parametrize(("dtype", "causal"), [("float32", True), ("bfloat16", True), ("float64", False)])
def test_attention(dtype: str, causal: bool) -> None:
    shapes = ((1, 2, 67, 5), (1, 2, 70, 5), (1, 2, 70, 3))
    program = Program.create([(name, TensorType(dtype, s)) for name, s in zip("qkv", shapes, strict=True)])
    with program.building("node"):
        y = ops.attention(*program.inputs, scale=0.4, causal=causal)
    program.finish([("y", y)])
    check(program, [random(t, {}, i) for i, t in enumerate(program.input_types)], "decompose{keep=attention},fuse")


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("wide", ["float32", None])
def test_int8_matmuls(dtype: str, wide: str | None) -> None:
    """Depths that lie side by side and apart on either side, in batches; an odd size, and one that is none."""
    shapes = [(3, 37, 67), (3, 67, 21), (21, 67), (67, 5), (0, 67)]
    program = Program.create([(f"x{i}", TensorType(dtype, shape)) for i, shape in enumerate(shapes)])
    a, b, c, d, nothing = program.inputs
    with program.building("node"):
        one = ops.dot_general(a, b, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(2,), rhs_contract=(1,), dtype=wide)
        two = ops.dot_general(c, a, lhs_contract=(1,), rhs_contract=(2,), dtype=wide)
        three = ops.dot_general(d, c, lhs_contract=(0,), rhs_contract=(1,), dtype=wide, sums="fast")
        four = ops.dot_general(nothing, d, lhs_contract=(1,), rhs_contract=(0,), dtype=wide)
    program.finish([("one", one), ("two", two), ("three", three), ("four", four)])
    arrays = [np.random.default_rng(i).standard_normal(s).astype(numpy_dtype(dtype)) for i, s in enumerate(shapes)]
    x, y, z, w, _ = (array.astype(np.float64) for array in arrays)
    pipeline.run(pipeline.parse("fuse"), program, Environment(GPU()))
    got = interpreted(program, arrays, simulated.Simulator().launch, GPU().preferences)
    rounding = {"float32": 1e-6, None: {"float8_e4m3fn": 0.07, "float8_e5m2": 0.14}[dtype]}[wide]
    for result, want in zip(got, (x @ y, np.einsum("nk,bmk->nbm", z, x), w.T @ z.T, np.zeros((0, 5))), strict=True):
        assert result.dtype == numpy_dtype(wide or dtype)
        np.testing.assert_allclose(result.astype(np.float64), want, rtol=rounding, atol=2e-2 if wide is None else 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_of_short_attention_sum_to_one(dtype: str) -> None:
    """Weights are rounded to half precision; the output for equal values is that value, bit for bit."""
    shapes = ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8))
    program = Program.create([(name, TensorType(dtype, s)) for name, s in zip("qkv", shapes, strict=True)])
    with program.building("node"):
        y = ops.attention(*program.inputs, scale=0.4)
    program.finish([("y", y)])
    pipeline.run(pipeline.parse("decompose{keep=attention},fuse"), program, Environment(GPU()))
    arrays = [random(t, {}, i) for i, t in enumerate(program.input_types)]
    arrays[2][...] = arrays[2][:, :, :1]
    (got,) = interpreted(program, arrays, simulated.Simulator().launch, GPU().preferences)
    np.testing.assert_array_equal(got, np.broadcast_to(arrays[2][:, :, :1], got.shape))


BYTES = [
    name for name, info in DTYPES.items() if info.kind == "small" or (info.kind in ("int", "uint") and info.bits < 8)
]


@pytest.mark.parametrize("dtype", BYTES)
def test_numbers_of_a_few_bits(dtype: str) -> None:
    """Every code as a float, an integer and a double, and floats of all sizes as codes."""
    bits = DTYPES[dtype].bits
    codes = np.arange(1 << bits, dtype=np.uint8).view(numpy_dtype(dtype))
    x = np.concatenate(
        [random(TensorType("float32", (50,)), {}, 3, special=True), 2.0 ** np.arange(-140.0, 127.0, 3.7)]
    )
    program = Program.create([("codes", TensorType(dtype, codes.shape)), ("x", TensorType("float32", x.shape))])
    with program.building("node"):
        number = ops.cast(program.inputs[0], dtype="float32")
        results = [number, ops.cast(program.inputs[0], dtype="int32"), ops.cast(number, dtype="float64")]
        for saturate in (True, False):
            code = ops.cast(program.inputs[1], dtype=dtype, saturate=saturate)
            results += [ops.cast(code, dtype="float16"), ops.cast(code, dtype="int64")]
    program.finish([(f"y{i}", y) for i, y in enumerate(results)])
    check(program, [codes, x.astype(np.float32)], "fuse")


Shape = tuple[int, ...]
SCATTERS: list[tuple[str, str, str, Shape, Shape, Shape]] = [
    ("scatter_nd", "add", "float32", (7, 5), (3, 4, 1), (3, 4, 5)),
    ("scatter_nd", "add", "bfloat16", (7, 3), (11, 1), (11, 3)),
    ("scatter_nd", "none", "float32", (4, 5), (11, 2), (11,)),
    ("scatter_nd", "max", "int32", (4, 5), (13, 2), (13,)),
    ("scatter_nd", "add", "int64", (4, 5), (3, 1), (3, 5)),
    ("scatter_nd", "mul", "float32", (2, 3), (10, 0), (10, 2, 3)),
    ("scatter_nd", "add", "float32", (2, 5), (40, 30, 1), (40, 30, 5)),
    ("scatter_nd", "max", "int32", (3, 4), (300, 1), (300, 4)),
    ("scatter_nd", "add", "float32", (4, 5), (0, 1), (0, 5)),
    ("scatter_elements", "add", "float32", (4, 6), (3, 11), (3, 11)),
    ("scatter_elements", "none", "float32", (5, 6), (4, 2), (4, 2)),
    ("scatter_elements", "min", "float32", (5, 6), (5, 9), (5, 9)),
]
"""Op, reduction, element type, shapes of x, indices and updates. Indices repeat, and some count from the end."""


def scatters() -> list[Any]:
    """Each with its sizes as numbers, and with one by name: most of these, which take the interpreter long, are marked slow."""
    quick = (("scatter_nd", "int64"),)
    return [
        pytest.param(
            case,
            named,
            id=f"{case[0]} {case[1]} {case[2]} {case[4]}{' named' * named}",
            marks=[pytest.mark.slow] if named and not any(set(q) <= set(case[:3]) for q in quick) else [],
        )
        for case in SCATTERS
        for named in (False, True)
    ]


@pytest.mark.parametrize(("case", "named"), scatters())
def test_scatter(case: tuple[str, str, str, Shape, Shape, Shape], named: bool) -> None:
    """A parallel scatter gives the results of a sequential one."""
    name, reduction, dtype, *shapes = case
    sizes: list[tuple[Dim, ...]] = list(shapes)
    if named:
        colliding = 0 if name == "scatter_nd" else 1
        sizes[1:] = [tuple(symbol("n") if i == colliding else d for i, d in enumerate(s)) for s in shapes[1:]]
    types = [TensorType(t, s) for t, s in zip((dtype, "int64", dtype), sizes, strict=True)]
    program = Program.create(list(zip("xiu", types, strict=True)))
    with program.building("node"):
        options = {"axis": 1} if name == "scatter_elements" else {}
        y = getattr(ops, name)(*program.inputs, reduction=reduction, **options)
    program.finish([("y", y)])
    pipeline.run(pipeline.parse("fuse"), program, Environment(GPU()))
    x, _, u = (random(TensorType(dtype, s), {}, i) for i, s in enumerate(shapes))
    axes = shapes[0][1:2] if name == "scatter_elements" else shapes[0][: shapes[1][-1]]
    drawn = np.random.default_rng(5)
    indices = [drawn.integers(-d, d, shapes[1] if name == "scatter_elements" else shapes[1][:-1]) for d in axes]
    i = (
        indices[0]
        if name == "scatter_elements"
        else np.stack(indices, -1)
        if indices
        else np.zeros(shapes[1], np.int64)
    )
    want = interpreted(program, [x, i, u], preferences=Preferences())
    agree(interpreted(program, [x, i, u], preferences=GPU().preferences), want)
    agree(interpreted(program, [x, i, u], simulated.Simulator().launch, GPU().preferences), want)


def test_an_update_out_of_range_is_named() -> None:
    program = Program.create([("x", TensorType("float32", (5,))), ("i", TensorType("int64", (9, 1)))])
    with program.building("put"):
        y = ops.scatter_nd(*program.inputs, ops.full(shape=(9,), dtype="float32", value=1.0), reduction="add")
    program.finish([("y", y)])
    pipeline.run(pipeline.parse("fuse"), program, Environment(GPU()))
    indices = np.array([[0], [1], [2], [3], [4], [-5], [-1], [5], [0]])
    with pytest.raises(RunError, match="'put': index 5"):
        interpreted(program, [np.ones(5, np.float32), indices], simulated.Simulator().launch, GPU().preferences)


def test_an_index_out_of_range_is_named() -> None:
    program = Program.create([("x", TensorType("float32", (5, 3))), ("i", TensorType("int64", (4,)))])
    with program.building("look up"):
        y = ops.gather(*program.inputs, axis=0)
    program.finish([("y", y)])
    pipeline.run(pipeline.parse("fuse"), program, Environment(GPU()))
    x, indices = np.ones((5, 3), np.float32), np.array([0, -5, 4, -6])
    with pytest.raises(IndexOutOfRange, match="look up"):
        interpreted(program, [x, indices], preferences=GPU().preferences)
    with pytest.raises(RunError, match="'look up': index -6"):
        interpreted(program, [x, indices], simulated.Simulator().launch, GPU().preferences)


def test_gelu_has_accurate_tails() -> None:
    """1 + erf(x), which GELU has, loses all bits for negative x if erf is computed first."""
    x = np.concatenate([np.linspace(-14, 14, 4001), [0.0, -0.0, 1e-30, -1e-30, np.inf, -np.inf, np.nan]]).astype("f4")
    program = Program.create([("x", TensorType("float32", x.shape))])
    with program.building("node"):
        one = ops.full(shape=(), value=1.0, dtype="float32")
        program.finish([("y", ops.add(ops.erf(program.inputs[0]), one))])
    pipeline.run(pipeline.parse("fuse"), program, Environment(GPU()))
    simulator = simulated.Simulator()
    (got,) = interpreted(program, [x], simulator.launch, PREFERENCES)
    assert all("one_plus_erf(" in p.text and "tl.erf(" not in p.text for p in simulator.printer.functions.values())
    want = np.array([math.erfc(-v) for v in x.astype("f8")])
    assert np.isnan(got[-1]) and (got[-3:-1] == [2, 0]).all()
    off = np.abs(got - want)[:-1]
    assert off.max() < 1.3e-7  # half a unit of numbers up to 2
    tail = (x < 0) & (x > -4)
    assert (off[tail[:-1]] < 2e-5 * want[tail]).all()
