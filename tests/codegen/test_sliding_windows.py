"""Convolutions with one vector of columns, whose neighbouring windows share loads: every kind of CPU, of border and of size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import burn
from burn.codegen.cpu import loops
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.heuristics.preferences import preferences_of
from burn.codegen.cpu.kernels import KernelPrinter
from burn.codegen.cpu.matmul.schedule import Schedule
from burn.codegen.cpu.matmul.tiling import Tiled, panels_of
from burn.codegen.cpu.sliding import as_windows
from burn.codegen.cpu.target import Target, find
from burn.compiler import executable
from burn.dialect.control import Group
from burn.dialect.dims import symbol
from burn.dialect.mlir import context
from burn.kernels.body import ContractionKernel, LoopKernel
from burn.kernels.builders import kernels
from burn.options import Options
from burn.passes import pipeline
from burn.passes.environment import Environment
from burn.tracing.trace import trace
from tests.codegen.cpus import FLOAT_TARGETS
from tests.codegen.test_grouped_convolutions import Case, check, drawn, programmed

CASES = [
    Case.of(3, 16, 16, (9, 19), 3),
    Case.of(2, 16, 16, (23, 10), 3, 2),
    Case.of(2, 9, 13, (17, 8), 5),
    Case.of(5, 17, 8, (11, 9), 3),
    Case.of(1, 33, 7, (11, 23), 3, 1, 2),
    Case.of(3, 19, 16, (61,), 5),
    Case.of(1, 8, 16, (4, 5, 11), 3),
    Case(2, 16, 16, (9, 12), (3, 2), (1, 1), (1, 2), (2, 0), (3, 3)),
    Case(2, 16, 4, (12, 13), (2, 7), (1, 2), (2, 1), (0, 0), (0, 0)),  # no bounds checks
]


@pytest.mark.covering
@pytest.mark.parametrize("named", [False, True], ids=["", "named"])
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums(case: Case, target: str, named: bool) -> None:
    """Sizes that are numbers, and sizes that only a run tells, beside sums in float64."""
    weight = drawn(case)
    sizes = tuple(symbol(f"d{i}") for i in range(len(case.sizes))) if named else case.sizes
    run = executable(programmed(case, sizes, weight), Options(target=target, cache=False))
    for batch in (0, 1, 3):
        check(run, case, weight, batch)


def test_elements_in_padding_are_not_read() -> None:
    """Elements that are not finite reach the windows that hold them and no others, the borders' least of all."""
    case = Case.of(2, 16, 16, (7, 13), 3)
    x = np.zeros((1, 32, 7, 13), np.float32)
    x[0, 17, 2, 12], x[0, 3, 6, 0] = np.nan, np.inf
    y = executable(programmed(case, case.sizes, np.ones(case.weight_shape, np.float32)))(x)
    reached = np.zeros(y.shape, bool)
    reached[0, 16:, 1:4, 11:], reached[0, :16, 5:, :2] = True, True
    np.testing.assert_array_equal(~np.isfinite(y), reached)


def contraction(case: Case, target: Target) -> ContractionKernel:
    program, backend = programmed(case, case.sizes, drawn(case)), CPU(target)
    with context():
        pipeline.run(pipeline.parse("decompose,layout,pack,fuse,release"), program, Environment(backend))
        groups = [o.opview for o in program.block.operations if isinstance(o.opview, Group)]
        calls = [call for group in groups for call in kernels(group, preferences_of(target))]
        (kernel,) = (call.kernel for call in calls if isinstance(call.kernel, ContractionKernel))
    return kernel


def loops_of(case: Case, target: Target) -> LoopKernel | None:
    """The loops of the convolution's windows; None if it is a matmul."""
    kernel = contraction(case, target)
    tiled = Tiled.of(kernel, panels_of(kernel))
    assert tiled is not None
    return as_windows(kernel, Schedule.of(tiled, target), target)


@pytest.mark.parametrize(
    ("target", "case", "shares"),
    [
        ("avx512", Case.of(8, 16, 16, (14, 14), 3), True),
        ("avx512", Case.of(8, 16, 16, (14, 14), 3, 2), True),
        ("avx512", Case.of(1, 96, 8, (50,), 3), True),
        ("avx2", Case.of(8, 8, 8, (14, 14), 3), True),
        ("avx2", Case.of(1, 32, 4, (500,), 5), True),  # eight windows, and not five, which wait for their sums
        ("avx2", Case(1, 32, 4, (504,), (5,), (1,), (1,), (0,), (0,)), False),  # five: none is past the end
        ("avx2", Case.of(8, 16, 16, (14, 14), 3), False),  # two vectors share an element
        ("avx512", Case.of(1, 96, 16, (14, 14), 1), False),
        ("avx512", Case.of(1, 96, 16, (16, 16), 3, 1, 6), False),  # 20 elements for 24 multiply-adds
        ("avx512", Case.of(8, 16, 16, (16, 16), 3, 1, 6), True),  # addresses of a tile's rows take longer
        ("avx512", Case.of(1, 96, 16, (16, 16), 3, 1, 12), False),  # tiles leave out taps
        ("avx512", Case.of(8, 16, 16, (3, 3), 3, 2), False),  # two windows wait for each other's sums
    ],
    ids=str,
)
def test_choice(target: str, case: Case, shares: bool) -> None:
    assert (loops_of(case, find(target)) is not None) == shares


def test_sums_stay_in_order_for_exact_targets() -> None:
    case = Case.of(8, 16, 16, (14, 14), 3)
    assert loops_of(case, replace(find("avx512"), exact=True)) is None


def test_groups_are_inside_of_rows_while_weights_are_cached() -> None:
    """The weights of 64 groups are 590 KB, and those of 128 are more than a thread keeps."""
    orders = {
        groups: [v.extent for v in found.parallel]
        for groups in (64, 128)
        if (found := loops_of(Case.of(groups, 16, 16, (14, 12), 3), find("avx512"))) is not None
    }
    assert [n for n in orders[64] if isinstance(n, int)] == [14, 12, 64, 16]
    assert [n for n in orders[128] if isinstance(n, int)] == [14, 128, 12, 16]


def test_windows_that_all_reach_a_border_have_no_other_code() -> None:
    """Two times seven windows of a row have elements in the padding, and not the middle ones of 28."""
    for size, inner in ((14, False), (28, True)):
        found = loops_of(Case.of(8, 16, 16, (size, size), 3), find("avx512"))
        assert found is not None
        adjacent = loops.Schedule.of(found, find("avx512")).adjacent
        assert adjacent is not None and (adjacent.count, adjacent.inner) == (7, inner)


def test_inner_loops_multiply_and_load() -> None:
    """Guards are tested before a loop over channels, which is not unrolled. Seven windows of a row have three taps each."""
    printer = KernelPrinter(find("avx512"))
    printer.print(contraction(Case.of(8, 16, 16, (14, 14), 3), printer.target))
    (text,) = printer.functions
    blocks, inner = [list[str]()], list[list[str]]()
    for line in text.splitlines():
        if line.endswith("{"):
            blocks.append([])
        elif line.lstrip().startswith("}"):
            block = blocks.pop()
            inner += [block] if any("!llvm.ptr -> f32" in each for each in block) else []
        else:
            blocks[-1].append(line)
    assert {sum("fmuladd" in line for line in block) for block in inner} == {21, 42}
    assert not any("select" in line or "cmpi" in line for block in inner for line in block)


@pytest.mark.parametrize("target", FLOAT_TARGETS)
def test_guards_of_computed_values_form_no_windows(target: str) -> None:
    """A variance over a named size is summed in blocks. The guards of the last block replace computed values, not loads."""
    program = trace(lambda x: burn.square(x - x.mean(axis=0)).mean(axis=0), {"x": "float32[n, 3, 8]"})
    run = executable(program, Options(target=target))
    for rows in (1, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 3, 8)).astype(np.float32)
        np.testing.assert_allclose(run(x), x.astype(np.float64).var(axis=0), rtol=1e-5, atol=1e-6)
