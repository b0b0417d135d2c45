"""Tensors that kernels read and write where they are: weights of convolutions that are inputs, and normalised images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burn.codegen.triton.backend import GPU
from burn.dialect import ops
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.builders import kernels
from burn.kernels.text import groups
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.kernels.interpreting import interpreted
from tests.passes.cases import random

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
torch = pytest.importorskip("torch")


def compiled(function: Callable[..., Any], *types: TensorType) -> Program:
    made = Program.create([(f"x{i}", t) for i, t in enumerate(types)])
    with made.building("node"):
        y = function(*made.inputs)
    made.finish([("y", y)])
    pipeline.run(pipeline.parse(GPU().pipeline.text), made, Environment(GPU()))
    return made


def members(made: Program) -> list[list[str]]:
    """The names of the ops of each group."""
    with context():
        return [[o.OP_NAME for o in group.ops] for group in groups(made.block)]


def calls(made: Program) -> int:
    """The number of kernels."""
    with context():
        return sum(len(kernels(group, GPU().preferences)) for group in groups(made.block))


def agrees(made: Program, want: Callable[..., Any], tolerance: float) -> None:
    arrays = [random(t, {}, i) for i, t in enumerate(made.input_types)]
    with context():
        (got,) = interpreted(made, arrays, simulated.Simulator().launch, GPU().preferences)
    wide = want(*(torch.from_numpy(np.asarray(a, np.float64)) for a in arrays)).numpy()
    np.testing.assert_allclose(np.asarray(got, np.float64), wide, rtol=tolerance, atol=tolerance * abs(wide).max())


FORWARD, BACK = (0, 3, 1, 2), (0, 2, 3, 1)
"""From channels-last images, and back."""

LAYOUTS = {"first": (0, 1, 2, 3), "last": (0, 3, 1, 2)}
"""How a weight lies in memory -> the permutation to [O, C, k, k]."""


@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize(("lies", "k", "stride"), [("first", 1, 1), ("first", 1, 2), ("first", 3, 1), ("last", 3, 2)])
def test_weights_of_convolutions(lies: str, k: int, stride: int, cast: bool) -> None:
    """A weight is read in place if the summed channels are adjacent. Otherwise one kernel transposes and casts it."""
    order, low = LAYOUTS[lies], k // 2
    shape = (24, 17, k, k)
    memory = tuple(shape[order.index(axis)] for axis in range(4))

    def function(x: Any, w: Any) -> Any:
        w = ops.cast(w, dtype="float16") if cast else w
        w = ops.transpose(w, permutation=order)
        x = ops.transpose(x, permutation=FORWARD)
        y = ops.conv(x, w, strides=(stride,) * 2, dilations=(1, 1), low=(low, low), high=(low, low))
        return ops.transpose(y, permutation=BACK)

    made = compiled(
        function, TensorType("float16", (2, 7, 6, 17)), TensorType("float32" if cast else "float16", memory)
    )
    *before, convolution = members(made)
    in_place = k == 1 or lies == "last"
    assert "conv" in convolution and ("transpose" in convolution) == in_place
    wanted = ["cast"] * cast + ["transpose"] * (not in_place)
    assert before == ([wanted] if wanted else []), before

    def want(x: Any, w: Any) -> Any:
        y = torch.nn.functional.conv2d(x.permute(FORWARD), w.permute(order), stride=stride, padding=low)
        return y.permute(BACK)

    agrees(made, want, 4e-3)


@pytest.mark.parametrize(("groups_", "last"), [(1, False), (1, True), (4, False), (4, True)])
def test_a_group_norm_of_half_precision_is_one_kernel(groups_: int, last: bool) -> None:
    """With its casts, scale and bias, for images of both layouts: no float32 image is stored."""

    def function(x: Any, scale: Any, bias: Any) -> Any:
        x = ops.transpose(x, permutation=FORWARD) if last else x
        y = ops.group_norm(x, scale, bias, groups=groups_)
        return ops.transpose(y, permutation=BACK) if last else y

    shape = (3, 5, 6, 8) if last else (3, 8, 5, 6)
    made = compiled(function, TensorType("float16", shape), *[TensorType("float16", (8,))] * 2)
    assert len(members(made)) == 1, members(made)

    def want(x: Any, scale: Any, bias: Any) -> Any:
        y = torch.nn.functional.group_norm(x.permute(FORWARD) if last else x, groups_, scale, bias)
        return y.permute(BACK) if last else y

    agrees(made, want, 4e-3)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_long_row_that_is_read_several_times_is_split(rows: int) -> None:
    """A norm reads a row three times, so that shorter rows are split than for a sum."""

    def count(function: Callable[[Any], Any], length: int) -> int:
        return calls(compiled(function, TensorType("float32", (rows, 1, length))))

    def total(x: Any) -> Any:
        return ops.reduce(x, kind="sum", axes=(2,))

    def norm(x: Any) -> Any:
        return ops.group_norm(x, None, None, groups=1)

    long = GPU().preferences.long_rows
    assert count(norm, long // 4) == 1 < count(norm, long // 2)
    assert count(total, long // 2) == 1 < count(total, long)


def test_a_constant_in_memory() -> None:
    made = compiled(lambda x: ops.full(shape=(4, 3), value=2.0, dtype="float32"), TensorType("float32", (4, 3)))
    assert members(made) == [["full"]]


CONCATS = [((16, 8, 24, 8, 8), 1), ((8, 16, 24) * 6, 3), ((8,) * 64, 8), ((8,) * 65, 66), ((16, 8, 4, 8, 8), 6)]
"""Sizes of concatenated tensors, and the number of kernels."""


@pytest.mark.parametrize(("sizes", "count"), CONCATS)
def test_a_concat_of_many_tensors_is_few_kernels(sizes: tuple[int, ...], count: int) -> None:
    """One for eight tensors and the ops that read them, if threads load runs of 16 bytes. Otherwise one for each."""

    def function(scale: Any, *xs: Any) -> Any:
        return ops.relu(ops.mul(ops.concat(xs, axis=2), scale))

    made = compiled(
        function, TensorType("float16", (sum(sizes),)), *(TensorType("float16", (3, 5, size)) for size in sizes)
    )
    assert calls(made) == count
    if len(sizes) < 20:
        agrees(made, lambda scale, *xs: (torch.cat(xs, 2) * scale).relu(), 2e-3)


def test_a_concat_alone_is_one_kernel() -> None:
    made = compiled(lambda *xs: ops.concat(xs, axis=1), *[TensorType("float16", (3, 2, 8))] * 3)
    assert calls(made) == 1
    agrees(made, lambda *xs: torch.cat(xs, 1), 1e-6)
