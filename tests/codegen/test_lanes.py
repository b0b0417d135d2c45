"""The vectorised loop of reductions: the one whose iterations load neighbouring elements, though results are neighbours along
another."""

from __future__ import annotations

import numpy as np
import pytest

from burn.codegen.cpu.heuristics.lanes import choose_lane
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.target import TARGETS, host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.dims import symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import LoopKernel
from burn.kernels.builders import kernels
from burn.kernels.rewrite import collapse
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.executable import Executable
from burn.runtime.host import features

PASSES = "fuse,release"
HOSTS = [target.name for target in host_targets(features())]


def squares(shape: tuple[int, ...], axis: int, heads: int, kind: str = "sum", named: bool = False) -> Program:
    """The reduction of x * x for the first `heads` of axis 1."""
    rows = symbol("rows") if named else shape[0]
    program = Program.create([("x", TensorType("float32", (rows, *shape[1:])))])
    with program.building("node"):
        kept = ops.slice(program.inputs[0], starts=(0, 0, 0), sizes=(rows, heads, shape[2]), steps=(1, 1, 1))
        y = ops.reduce(ops.mul(kept, kept), kind=kind, axes=(axis,), keepdims=False)
    return program.finish([("y", y)])


@pytest.mark.parametrize(("shape", "axis", "lane"), [((50, 9, 32), 2, 32), ((50, 9, 7), 2, 7), ((50, 9, 32), 0, 32)])
def test_loop(shape: tuple[int, int, int], axis: int, lane: int) -> None:
    """The sums of 32 elements for three heads are neighbours, but three of 16 lanes would gather every element."""
    program = squares(shape, axis, 3)
    with context():
        pipeline.run(pipeline.parse(PASSES), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        (call,) = kernels(group, preferences_of(TARGETS["avx2"]))
    assert isinstance(call.kernel, LoopKernel)
    chosen = choose_lane(call.kernel, TARGETS["avx2"])
    assert chosen is not None and chosen.extent == lane
    inner = {v for stage in call.kernel.stages for v in stage.loops}
    assert (chosen in inner) == (axis == 2)


@pytest.mark.covering(of=lambda named, target: (named, target))
@pytest.mark.parametrize("target", HOSTS)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(1, 3, 1), (0, 3, 5), (50, 9, 32), (7, 4, 67), (13, 5, 3), (4, 3, 0)])
def test_values(shape: tuple[int, int, int], axis: int, kind: str, named: bool, target: str) -> None:
    x = np.random.default_rng(4).standard_normal(shape).astype("f4")
    kept = x[:, :3].astype("f8") ** 2
    want = kept.sum(axis) if kind == "sum" else kept.max(axis, initial=-np.inf)
    run = Executable(compile_program(squares(shape, axis, 3, kind, named), Options(target=target, passes=PASSES)))
    np.testing.assert_allclose(run(x), want, rtol=2e-6)


def columns(shape: tuple[int, int, int], units: tuple[int, ...]) -> Program:
    """The transpose of the last two axes, with axes of one element inserted before these axes of the result."""
    program = Program.create([("x", TensorType("float32", shape))])
    with program.building("node"):
        y = ops.transpose(program.inputs[0], permutation=(0, 2, 1))
        sizes = [shape[0], shape[2], shape[1]]
        for axis in sorted(units, reverse=True):
            sizes.insert(axis, 1)
        y = ops.reshape(y, shape=tuple(sizes))
    return program.finish([("y", y)])


@pytest.mark.parametrize("units", [(), (3,), (2, 3), (0, 1, 3)])
def test_axes_of_one_element_hide_no_loop(units: tuple[int, ...]) -> None:
    program = columns((4, 40, 70), units)
    with context():
        pipeline.run(pipeline.parse(PASSES), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        (call,) = kernels(group, preferences_of(TARGETS["avx2"]))
    kernel = collapse(call.kernel)
    assert isinstance(kernel, LoopKernel)
    chosen = choose_lane(kernel, TARGETS["avx2"])
    assert chosen is not None and chosen.extent == 40
    assert [v.extent for v in kernel.parallel] == [4, 70, 40]


@pytest.mark.parametrize("shape", [(4, 40, 70), (1, 1, 1), (3, 1, 5), (0, 2, 3), (2, 37, 1)])
@pytest.mark.parametrize("units", [(3,), (0, 1, 3)])
def test_transposes_with_axes_of_one_element(shape: tuple[int, int, int], units: tuple[int, ...]) -> None:
    x = np.random.default_rng(5).standard_normal(shape).astype("f4")
    run = Executable(compile_program(columns(shape, units), Options(passes=PASSES)))
    got = run(x)
    assert got.ndim == 3 + len(units)
    np.testing.assert_array_equal(got.reshape(shape[0], shape[2], shape[1]), x.transpose(0, 2, 1))


def windows(shape: tuple[int, int], kind: str, size: int, stride: int) -> Program:
    """The reduction of windows of the last axis."""
    program = Program.create([("x", TensorType("float32", shape))])
    with program.building("node"):
        y = ops.window_reduce(
            program.inputs[0],
            kind=kind,
            window=(1, size),
            strides=(1, stride),
            dilations=(1, 1),
            low=(0, 0),
            high=(0, 0),
        )
    return program.finish([("y", y)])


@pytest.mark.parametrize(
    ("kind", "size", "stride", "target", "results"),
    [
        ("max", 4, 4, "avx2", True),  # shuffled from four vectors
        ("sum", 2, 2, "avx2", True),
        ("max", 7, 7, "avx2", True),  # gathered
        ("max", 8, 8, "avx2", True),  # as many elements as lanes, which three steps of max would combine
        ("max", 9, 9, "avx512", True),
        ("max", 3, 2, "generic", True),
        ("sum", 3, 1, "avx2", True),
        ("sum", 8, 8, "avx2", False),  # one load and three additions are less than eight gathers
        ("max", 64, 64, "avx2", False),
        ("sum", 64, 64, "avx512", False),
    ],
)
def test_results_of_short_reductions_are_vectors(kind: str, size: int, stride: int, target: str, results: bool) -> None:
    program = windows((5, 3000), kind, size, stride)
    with context():
        pipeline.run(pipeline.parse(PASSES), program)
        (group,) = (o.opview for o in program.block.operations if isinstance(o.opview, Group))
        (call,) = kernels(group, preferences_of(TARGETS[target]))
    assert isinstance(call.kernel, LoopKernel)
    chosen = choose_lane(call.kernel, TARGETS[target])
    assert chosen is not None and (chosen in call.kernel.parallel) == results


@pytest.mark.covering(of=lambda shape, target: (shape, target))
@pytest.mark.parametrize("target", HOSTS)
@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize(("size", "stride"), [(2, 2), (3, 2), (4, 4), (5, 3), (7, 7), (8, 8), (3, 5), (17, 16), (1, 3)])
@pytest.mark.parametrize("shape", [(3, 300), (1, 17), (2, 41), (0, 30)])
def test_windows_with_a_stride(shape: tuple[int, int], size: int, stride: int, kind: str, target: str) -> None:
    x = np.random.default_rng(6).standard_normal(shape).astype("f4")
    x.reshape(-1)[5:6] = np.nan
    cut = np.lib.stride_tricks.sliding_window_view(x.astype("f8"), size, axis=1)[:, ::stride]
    run = Executable(compile_program(windows(shape, kind, size, stride), Options(target=target, passes=PASSES)))
    np.testing.assert_allclose(run(x), getattr(cut, kind)(-1), rtol=2e-6, atol=2e-6)
