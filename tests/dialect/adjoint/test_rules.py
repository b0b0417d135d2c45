"""Every rule against differences of the function itself, in float64."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import burn
from burn.dialect.adjoint import rules as table
from burn.dialect.mlir import context
from burn.dialect.op import REGISTRY
from burn.tensors import Tensor
from tests.dialect.adjoint.cases import CASES, Case

STEP = 1e-5
RECORDABLE = [case for case in CASES if case.op in table.rules() or case.op == "lstm"]
RECORDED = RECORDABLE[::9]
"""In every run. Each is a second program as large as the compiled one, and how an op is recorded does not depend on its rule."""


def _types(case: Case) -> tuple[str, ...]:
    return tuple(f"float64[{', '.join(map(str, shape))}]" for shape in case.shapes)


def _weighted(case: Case, *xs: Tensor) -> Tensor:
    """A scalar in which every element of the result counts differently."""
    y = case.function(*xs)
    count = burn.arange(y.size, dtype="float64").reshape(y.shape)
    return (y * (count * 0.7 + 1.0).sin()).sum()


def _derivatives(case: Case) -> Any:
    """The function, its derivatives, and (for smooth ones) the derivatives of their sum, weighted."""
    numbers = tuple(range(len(case.shapes)))

    def first(*xs: Tensor) -> tuple[Tensor, ...]:
        return burn.grad(lambda *v: _weighted(case, *v), numbers)(*xs)

    def slope(*xs: Tensor) -> Tensor:
        total = burn.constant(0.0, "float64")
        for g in first(*xs):
            total = total + (g * g).sum()
        return total

    def all_of(*xs: Tensor) -> Any:
        second = burn.grad(slope, numbers)(*xs) if case.smooth else ()
        return _weighted(case, *xs), first(*xs), slope(*xs), second

    return all_of


@functools.cache
def _compiled(index: int) -> Any:
    case = CASES[index]
    return burn.compile(_derivatives(case), _types(case))


def _along(function: Any, arrays: list[np.ndarray], direction: list[np.ndarray], which: int) -> float:
    """The derivative of one of the function's scalars in a direction, by differences."""
    ahead = function(*(a + STEP * d for a, d in zip(arrays, direction, strict=True)))[which]
    back = function(*(a - STEP * d for a, d in zip(arrays, direction, strict=True)))[which]
    return (float(ahead) - float(back)) / (2 * STEP)


def _check(function: Any, case: Case, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = case.arrays(rng, n)
    direction = [rng.standard_normal(a.shape) for a in arrays]
    _, first, _, second = function(*arrays)
    for which, grads in ((0, first), (2, second)):
        for a, g in zip(arrays, grads, strict=False):
            assert g.shape == a.shape
        if grads:
            found = sum(float((g * d).sum()) for g, d in zip(grads, direction, strict=True))
            want = _along(function, arrays, direction, which)
            assert found == pytest.approx(want, rel=2e-5, abs=2e-6), f"n = {n}, derivative {1 + which // 2}"


def _varies(case: Case) -> bool:
    return any("n" in shape for shape in case.shapes)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    """Compiled for any n; at 1 and at a prime. Every ninth case is also recorded lazily."""
    compiled = _compiled(CASES.index(case))
    for n in (1, 5) if _varies(case) else (1,):
        _check(lambda *a: compiled(*a), case, n, 7 * n)
    if case in RECORDED:
        _recorded_agrees(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in RECORDABLE if case not in RECORDED], ids=str)
def test_recorded(case: Case) -> None:
    _recorded_agrees(case)


def _recorded_agrees(case: Case) -> None:
    """Ops that are recorded lazily give the numbers of the compiled function."""
    arrays = case.arrays(np.random.default_rng(3), 2)
    compiled = _compiled(CASES.index(case))(*arrays)
    recorded = _derivatives(case)(*map(burn.constant, arrays))
    for got, want in zip((*recorded[1], *recorded[3]), (*compiled[1], *compiled[3]), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-10)


def test_every_rule_has_a_case() -> None:
    context()
    complexes = {"complex", "real", "imag", "conj", "view_as_real", "view_as_complex"}
    collectives = {"all_reduce", "all_gather", "reduce_scatter", "collective_broadcast"}
    # tests of burn.checkpoint, tests/custom, tests/complex, tests/distributed/ranks.py
    elsewhere = {"barrier", "custom"} | complexes | collectives
    assert set(table.rules()) - {c.op for c in CASES} == elsewhere


def test_every_op_is_accounted_for() -> None:
    """Ops said to be discrete take no floats, or give none."""
    context()
    assert set(table.NONE) | table.ZERO | table.HIDES <= REGISTRY.keys()
    discrete = {name for name in REGISTRY if table.kind(name) == "discrete"}
    assert discrete == {
        "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "shift_left", "shift_right", "isnan", "isinf",
        "constant", "full", "iota", "weight", "dim_values", "read_dim", "check_size", "yield", "return", "group",
        "list_empty", "list_length", "list_at", "image_decode", "debug_print", "debug_call", "check_finite",
        "number_to_string", "string_to_number",
        *(name for name in REGISTRY if name.startswith("string_")),
    }  # fmt: skip


@pytest.mark.parametrize("sizes", [(0, 4), (2, 0), (0, 0)])
def test_a_convolution_without_results_has_zero_gradients(sizes: tuple[int, int]) -> None:
    """Strides are longer than the kernel, so the windows of no results would reach over fewer than no elements."""
    x, weight = np.zeros((2, 3, *sizes), np.float32), np.ones((4, 3, 1, 1), np.float32)
    options: dict[str, Any] = {"strides": (3, 2), "dilations": (1, 1), "low": (0, 0), "high": (0, 0)}

    def loss(weight: Any, x: Any) -> Any:
        return (burn.ops.conv(x, weight, **options) ** 3).sum()

    got = burn.compile(lambda w, x: burn.grad(loss)(w, x), (weight, x))(weight, x)
    np.testing.assert_array_equal(got, np.zeros_like(weight))
