"""Matmuls and convolutions in tiles, with split-K, and windows step by step give the right numbers at odd sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from burn.codegen.triton.backend import GPU
from burn.codegen.triton.heuristics.matmul import ROOM, matmul_tile, split_count
from burn.codegen.triton.heuristics.preferences import PREFERENCES
from burn.codegen.triton.heuristics.sizes import hinted_sizes, likely
from burn.dialect import ops
from burn.dialect.dims import Expr, LoopVar, parse, symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import Accumulator, Buffer, ContractionKernel, Convert, Load, LoopKernel, Write
from burn.kernels.builders import kernels
from burn.kernels.builders.builder import Call
from burn.kernels.builders.split_k import split_k
from burn.kernels.text import groups
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.kernels.interpreting import agree, interpreted
from tests.passes.cases import random

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
torch = pytest.importorskip("torch")

Shape = tuple[int | str, ...]


def program(function: Callable[..., Any], *shapes: Shape, dtype: str) -> Program:
    types = [TensorType(dtype, tuple(parse(d) if isinstance(d, str) else d for d in shape)) for shape in shapes]
    made = Program.create([(f"x{i}", t) for i, t in enumerate(types)])
    with made.building("node"):
        y = function(*made.inputs)
    made.finish([("y", y)])
    pipeline.run(pipeline.parse("decompose{keep=windows},fuse"), made, Environment(GPU()))
    return made


Choose = Callable[[ContractionKernel, Sequence[int]], int]


ROUNDING = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}


def check(made: Program, want: Callable[..., Any], parts: Choose, cut: bool = True, **sizes: int) -> None:
    """In parts, against torch in float64."""
    arrays = [random(t, sizes, i) for i, t in enumerate(made.input_types)]
    preferences = replace(PREFERENCES, split_depth=parts)
    with context():
        (calls,) = [kernels(group, preferences) for group in groups(made.block)]
    assert (len(calls) == 2) == cut
    (got,) = interpreted(made, arrays, simulated.Simulator().launch, preferences)
    expected = want(*(torch.from_numpy(x.astype(np.float64)) for x in arrays)).numpy()
    tolerance = ROUNDING[got.dtype.name]
    atol = tolerance * np.abs(expected).max(initial=1)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=tolerance, atol=atol)


def first(kernel: ContractionKernel, counts: Sequence[int]) -> int:
    return counts[0] if counts else 1


def most(kernel: ContractionKernel, counts: Sequence[int]) -> int:
    return counts[-1] if counts else 1


def several(kernel: ContractionKernel, counts: Sequence[int]) -> int:
    """8 parts or more. A depth that is known at run time allows 128, and the interpreter runs each. 8 parts of a few images
    include empty ones."""
    return next((count for count in counts if count >= 8), counts[-1])


def convolution(strides: tuple, dilations: tuple, low: tuple, high: tuple, groups: int) -> tuple[Callable, Callable]:
    """A channels-last convolution and its epilogue; the same in torch."""
    attrs = {"strides": strides, "dilations": dilations, "low": low, "high": high, "groups": groups, "layout": "last"}

    def function(x: Any, w: Any) -> Any:
        return ops.neg(ops.conv(x, w, **attrs))

    def want(x: Any, w: Any) -> Any:
        padded = torch.nn.functional.pad(x.permute(0, 3, 1, 2), (low[1], high[1], low[0], high[0]))
        y = torch.nn.functional.conv2d(padded, w.permute(3, 2, 0, 1), None, strides, 0, dilations, groups)
        return -y.permute(0, 2, 3, 1)

    return function, want


@pytest.mark.parametrize(("batch", "columns", "depth"), [(1, 301, 67), (3, 113, 2), (2, 150, 0)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_row(batch: int, columns: int, depth: int, dtype: str) -> None:
    """Every column is summed by itself."""
    batched = {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (2,)}
    made = program(
        lambda x, w: ops.neg(ops.dot_general(x, w, **batched)), (batch, 1, depth), (batch, columns, depth), dtype=dtype
    )
    assert ".dot(" not in GPU(portable=True).printer.listing(made)
    check(made, lambda x, w: -torch.einsum("bmk,bnk->bmn", x, w), split_count, cut=False)


PLAIN = ((1, 1), (1, 1), (1, 1), (1, 1), 1)
CONVOLUTIONS = {
    "a block of channels a tap": (((2, 5, 7, 64), (3, 3, 64, 17)), PLAIN),
    "stride 2, padding that differs": (((1, 9, 6, 32), (3, 3, 32, 5)), ((2, 2), (1, 1), (0, 1), (1, 2), 1)),
    "dilated": (((2, 7, 6, 33), (2, 3, 33, 4)), ((1, 2), (2, 3), (1, 3), (0, 2), 1)),
    "groups": (((1, 4, 5, 96), (3, 3, 48, 6)), ((1, 1), (1, 1), (1, 1), (1, 1), 2)),
    "one tap": (((2, 3, 5, 128), (1, 1, 128, 7)), ((1, 1), (1, 1), (0, 0), (0, 0), 1)),
    "one tap, a prime of channels": (((1, 3, 3, 131), (1, 1, 131, 3)), ((1, 1), (1, 1), (0, 0), (0, 0), 1)),
    "one channel": (((2, 14, 13, 1), (16, 11, 1, 5)), ((1, 1), (1, 1), (6, 5), (6, 5), 1)),
    "no images": (((0, 5, 5, 64), (3, 3, 64, 8)), PLAIN),
}


@pytest.mark.parametrize("parts", [first, most])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str, parts: Choose) -> None:
    shapes, attrs = CONVOLUTIONS[name]
    function, want = convolution(*attrs)
    check(program(function, *shapes, dtype="float16"), want, parts)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_convolution_of_as_many_images_as_a_call_has(n: int) -> None:
    function, want = convolution(*PLAIN)
    check(program(function, ("n", 5, 3, 64), (3, 3, 64, 5), dtype="float16"), want, several, n=n)


def weight_gradient(strides: tuple[int, int]) -> tuple[Callable, Callable]:
    def function(x: Any, dy: Any) -> Any:
        taken = ops.windows(x, axis=1, window=(3, 2), strides=strides, dilations=(1, 1))
        axes = {"lhs_contract": (0, 1, 2), "rhs_contract": (0, 1, 2), "lhs_batch": (), "rhs_batch": ()}
        return ops.dot_general(taken, dy, **axes)

    def want(x: Any, dy: Any) -> Any:
        return torch.einsum("nhwcij,nhwo->ijco", x.unfold(1, 3, strides[0]).unfold(2, 2, strides[1]), dy)

    return function, want


@pytest.mark.parametrize("parts", [first, most])
@pytest.mark.parametrize(("shapes", "strides"), [
    (((4, 9, 8, 5), (4, 7, 7, 3)), (1, 1)),
    (((4, 15, 14, 3), (4, 7, 7, 4)), (2, 2)),
])  # fmt: skip
def test_weight_gradient(shapes: tuple[Shape, Shape], strides: tuple[int, int], parts: Choose) -> None:
    function, want = weight_gradient(strides)
    check(program(function, *shapes, dtype="bfloat16"), want, parts)
    check(program(function, *shapes, dtype="float32"), want, parts)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_weight_gradient_of_as_many_images_as_a_call_has(n: int) -> None:
    function, want = weight_gradient((1, 1))
    check(program(function, ("n", 9, 8, 5), ("n", 7, 7, 3), dtype="float16"), want, several, n=n)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 131])
def test_a_depth_with_a_name(n: int) -> None:
    def function(x: Any, y: Any) -> Any:
        return ops.dot_general(x, y, lhs_batch=(), rhs_batch=(), lhs_contract=(0,), rhs_contract=(0,))

    check(program(function, ("n", 5), ("n", 3), dtype="float16"), lambda x, y: x.T @ y, most, n=n)


def test_parts_as_they_are_described() -> None:
    """In the interpreter of kernels, which has no tiles."""
    function, _ = convolution(*PLAIN)
    made = program(function, (1, 3, 2, 48), (3, 3, 48, 2), dtype="float32")
    arrays = [random(t, {}, i) for i, t in enumerate(made.input_types)]
    whole = interpreted(made, arrays, preferences=replace(PREFERENCES, split_depth=None))
    agree(interpreted(made, arrays, preferences=replace(PREFERENCES, split_depth=most)), whole)


def test_costly_epilogues_have_registers() -> None:
    plain, costly = (matmul_tile(4096, 3072, (LoopVar("k", 768),), 1, 16, c) for c in (False, True))
    assert plain.rows * plain.columns > ROOM * 32 * plain.warps
    assert costly.rows * costly.columns <= ROOM * 32 * costly.warps


@pytest.mark.parametrize(("columns", "tile"), [(8, (128, 16)), (16, (128, 16)), (24, (256, 32)), (32, (256, 32))])
def test_images_of_few_channels_have_tall_tiles(columns: int, tile: tuple[int, int]) -> None:
    found = matmul_tile(32 * 112 * 112, columns, (LoopVar("k", 64),), 1, 16)
    assert (found.rows, found.columns) == tile


def test_a_shallow_depth_stays_whole() -> None:
    def function(x: Any, y: Any) -> Any:
        return ops.dot_general(x, y, lhs_batch=(), rhs_batch=(), lhs_contract=(1,), rhs_contract=(0,))

    check(program(function, (5, 60), (60, 3), dtype="float16"), lambda x, y: x @ y, most, cut=False)


def contraction(rows: Any, columns: int, depth: Any) -> ContractionKernel:
    """A half-precision matmul whose operands are stored in the order in which they are read."""
    i, j, k = LoopVar("i", rows), LoopVar("j", columns), LoopVar("k", depth)
    left, right = (Convert("float32", Load("float16", n, 0)) for n in (0, 1))
    write = Write(2, 0, Accumulator("float32"))
    return ContractionKernel("float32", (), (i,), j, (k,), left, right, (write,), ())


def test_split_k_only_for_matmuls_that_leave_a_gpu_idle() -> None:
    counts = (2, 4, 8, 16, 64)
    assert split_count(contraction(4096, 4096, 4096), counts) == 1
    assert split_count(contraction(200704, 64, 576), counts) == 1
    assert split_count(contraction(576, 64, 200704), counts) >= 16
    assert split_count(contraction(576, 64, symbol("batch") * 3136), counts) >= 16
    assert split_count(contraction(49, 512, 4608), counts) > 1
    assert split_count(contraction(64, 64, 128), counts) == 1


WINDOWS = [
    ((2, 7, 6, 5), (1, 3, 2, 1), (1, 2, 2, 1), (0, 1, 0, 0), (0, 1, 1, 0)),
    ((0, 4, 4, 3), (1, 2, 2, 1), (1, 2, 2, 1), (0, 0, 0, 0), (0, 0, 0, 0)),
    ((1, 9, 1, 11), (1, 5, 1, 1), (1, 1, 1, 1), (0, 2, 0, 0), (0, 2, 0, 0)),
]


@pytest.mark.parametrize("kind", ["max", "sum"])
@pytest.mark.parametrize(("shape", "window", "strides", "low", "high"), WINDOWS)
def test_windows(shape: Shape, window: Shape, strides: Shape, low: Shape, high: Shape, kind: str) -> None:
    def function(x: Any) -> Any:
        return ops.window_reduce(
            x, kind=kind, window=window, strides=strides, dilations=(1, 1, 1, 1), low=low, high=high
        )

    made = program(function, shape, dtype="float16")
    with context():
        (call,) = [call for group in groups(made.block) for call in kernels(group, PREFERENCES)]
    assert isinstance(call.kernel, LoopKernel)
    arrays = [random(t, {}, i) for i, t in enumerate(made.input_types)]
    printer = simulated.Simulator()
    agree(interpreted(made, arrays, printer.launch, PREFERENCES), interpreted(made, arrays, preferences=PREFERENCES))
    overlaps = any(int(k) > int(s) for k, s in zip(window, strides, strict=True))
    assert all(("tl.static_range" in p.text) != overlaps for p in printer.printer.functions.values())


@pytest.mark.parametrize("images", [1, 5, 32])
@pytest.mark.parametrize("size", [7, 14, 56, 224])
def test_no_part_of_a_batch_is_likely_to_be_empty(images: int, size: int) -> None:
    """The pixels of a batch whose size has a name and a hint: a weight gradient's depth."""
    hints = hinted_sizes({"batch": images})
    offered: list[int] = []

    def most_of(kernel: ContractionKernel, counts: Sequence[int]) -> int:
        offered.extend(counts)
        return max(counts)

    kernel = contraction(27, 64, 1)
    loops = (LoopVar("k0", symbol("batch")), LoopVar("k1", size), LoopVar("k2", size))
    row = Expr.of(loops[0]) * size * size + Expr.of(loops[1]) * size + Expr.of(loops[2])
    left = Load("float16", 0, Expr.of(kernel.rows[0]) + row * 27)
    right = Load(
        "float16", 1, Expr.of(kernel.column) + Expr.of(loops[1]) * 64 + row * 128
    )  # not one loop with the left one
    operands = (Convert("float32", left), Convert("float32", right))
    memory = tuple(Buffer(dtype, access, 1) for dtype, access in (("float16", "read"),) * 2 + (("float32", "write"),))
    kernel = replace(kernel, depth=loops, lhs=operands[0], rhs=operands[1], buffers=memory)
    call = Call(kernel, (("in", 0), ("in", 1), ("out", 0)))
    likely_size = partial(likely, hints=hints)
    sums, _ = split_k(call, replace(PREFERENCES, split_depth=most_of, likely=likely_size))
    depth = [likely_size(v.extent) for v in sums.kernel.depth]
    parts = [likely_size(v.extent) for v in sums.kernel.batch]
    assert math.prod(parts) == max(offered)
    done = math.prod(depth) * math.prod(parts)
    assert isinstance(done, int) and done < 2 * images * size * size
