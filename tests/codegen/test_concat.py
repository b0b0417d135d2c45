"""Concats whose operands' kernels write into the result, on every kind of CPU. Operands are matmuls, convolutions, windows and
loops, along any axis, next to operands in memory."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.passes import PIPELINE
from burn.codegen.cpu.target import TARGETS
from burn.compiler import compile_program, environment, executable
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.dims import symbol
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.executable import Executable
from tests.codegen.cpus import FLOAT_TARGETS

WINOGRAD = PIPELINE.text.replace("winograd", "winograd{always}")


def weights(program: Program, array: np.ndarray) -> ir.Value:
    key = program.weights.add_array(array, f"w{array.shape}")
    return ops.weight(key=key, shape=array.shape, dtype=str(array.dtype))


def convolved(x: np.ndarray, weight: np.ndarray, groups: int = 1, pad: int = 0) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    each, filters = x.shape[1] // groups, weight.shape[0] // groups
    views = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    parts = [
        np.einsum("nchwij,ocij->nohw", views[:, g * each : (g + 1) * each], weight[g * filters : (g + 1) * filters])
        for g in range(groups)
    ]
    return np.concatenate(parts, axis=1)


@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("images", [0, 1, 3])
def test_branches_of_convolutions(target: str, images: int) -> None:
    """As in an inception block: 1x1, 3x3 by Winograd, grouped, pooled, and the input itself."""
    rng = np.random.default_rng(images)
    channels, height, width = 12, 9, 7
    arrays = [
        rng.standard_normal(shape).astype("f4") for shape in ((37, channels, 1, 1), (16, channels, 3, 3), (8, 3, 1, 1))
    ]
    program = Program.create([("x", TensorType("float32", (symbol("n"), channels, height, width)))])
    with program.building("block"):
        x = program.inputs[0]
        one, nine, apart = (weights(program, a) for a in arrays)
        same = {"strides": (1, 1), "dilations": (1, 1)}
        parts = [
            ops.relu(ops.conv(x, one, low=(0, 0), high=(0, 0), **same)),
            ops.relu(ops.conv(x, nine, low=(1, 1), high=(1, 1), **same)),
            x,
            ops.tanh(ops.conv(x, apart, low=(0, 0), high=(0, 0), groups=4, **same)),
            ops.window_reduce(
                x,
                kind="max",
                window=(1, 1, 3, 3),
                strides=(1,) * 4,
                dilations=(1,) * 4,
                low=(0, 0, 1, 1),
                high=(0, 0, 1, 1),
            ),
        ]
        y = ops.concat(parts, axis=1)
    program.finish([("y", y)])
    run = Executable(compile_program(program, Options(target=target, passes=WINOGRAD)))
    given = rng.standard_normal((images, channels, height, width)).astype("f4")
    wide = given.astype("f8")
    one, nine, apart = (a.astype("f8") for a in arrays)
    padded = np.pad(wide, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    expected = np.concatenate(
        [
            np.maximum(convolved(wide, one), 0),
            np.maximum(convolved(wide, nine, pad=1), 0),
            wide,
            np.tanh(convolved(wide, apart, groups=4)),
            np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3)).max((-1, -2)),
        ],
        axis=1,
    )
    np.testing.assert_allclose(run(given), expected, atol=1e-4)


@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("rows", [0, 1, 2, 65, 131])
def test_matmuls_along_any_axis(target: str, axis: int, rows: int) -> None:
    """Many rows are summed in tile registers where there are some."""
    rng = np.random.default_rng(rows)
    n = symbol("n")
    columns = (130, 129) if axis == 2 else (130, 130)
    a, b = (rng.standard_normal((128, c)).astype("f4") for c in columns)
    program = Program.create([("x", TensorType("float32", (2, n, 128)))])
    with program.building("products"):
        x = program.inputs[0]
        axes = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (2,), "rhs_contract": (0,)}
        parts = [
            ops.relu(ops.dot_general(x, weights(program, a), **axes)),
            ops.exp(ops.mul(x, x))
            if axis == 2
            else ops.concat([x, ops.slice(x, starts=(0, 0, 0), sizes=(2, n, 2), steps=(1, 1, 1))], axis=2),
            ops.dot_general(x, weights(program, b), **axes),
        ]
        y = ops.concat(parts, axis=axis)
    program.finish([("y", y)])
    run = Executable(compile_program(program, Options(target=target)))
    given = rng.standard_normal((2, rows, 128)).astype("f4") / 4
    wide = given.astype("f8")
    middle = np.exp(wide * wide) if axis == 2 else np.concatenate([wide, wide[..., :2]], axis=2)
    expected = np.concatenate([np.maximum(wide @ a.astype("f8"), 0), middle, wide @ b.astype("f8")], axis=axis)
    np.testing.assert_allclose(run(given), expected, atol=1e-4)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_part_that_another_part_is_made_of(swapped: bool) -> None:
    """Each part is a kernel of its own: a contraction that another one reads cannot be in it."""
    rng = np.random.default_rng(4)
    first, second = rng.standard_normal((16, 16)).astype("f4"), rng.standard_normal((16, 32)).astype("f4")
    program = Program.create([("x", TensorType("float32", (64, 16)))])
    axes = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
    with program.building("parts"):
        y = ops.dot_general(program.inputs[0], weights(program, first), **axes)
        parts = [ops.dot_general(y, weights(program, second), **axes), ops.tanh(y)]
        whole = ops.concat(parts[::-1] if swapped else parts, axis=1)
    run = executable(program.finish([("y", whole)]))
    given = rng.standard_normal((64, 16)).astype("f4")
    y = given.astype("f8") @ first
    expected = [y @ second, np.tanh(y)]
    np.testing.assert_allclose(run(given), np.concatenate(expected[::-1] if swapped else expected, axis=1), atol=1e-4)


def test_parts_without_elements() -> None:
    """Sizes of 0 beside the axis: no part has anything to write."""
    program = Program.create([("x", TensorType("float32", (2, 0)))])
    with program.building("parts"):
        (x,) = program.inputs
        parts = [ops.tanh(x), ops.slice(ops.exp(x), starts=(0, 0), sizes=(1, 0), steps=(1, 1))]
        y = ops.concat(parts, axis=0)
    run = executable(program.finish([("y", y)]))
    found = run(np.zeros((2, 0), "f4"))
    assert found.shape == (3, 0)


def test_profiles_tell_of_each_part() -> None:
    """A launch has the nodes, operations and bytes of the part that it makes, and not of all."""
    a, b = (np.ones((16, c), "f4") for c in (16, 32))
    program = Program.create([("x", TensorType("float32", (64, 16)))])
    axes = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
    with program.building("left"):
        left = ops.dot_general(program.inputs[0], weights(program, a), **axes)
    with program.building("right"):
        right = ops.dot_general(program.inputs[0], weights(program, b), **axes)
    with program.building("whole"):
        whole = ops.concat([left, right], axis=1)
    program.finish([("y", whole)])
    pipeline.run(pipeline.parse(PIPELINE.text), program, environment(CPU(TARGETS["generic"])))
    (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
    assert group.kind == "concat"
    records = CPU(TARGETS["generic"]).printer.build(program).records
    assert [record.sources for record in records] == [("left",), ("right",)]
    assert [record.flops for record in records] == [2 * 64 * 16 * 16, 2 * 64 * 16 * 32]
    assert [record.kind for record in records] == ["contract", "contract"]
    assert [record.bytes for record in records] == [
        4 * (64 * 16 + 16 * 16 + 64 * 16),
        4 * (64 * 16 + 16 * 32 + 64 * 32),
    ]
