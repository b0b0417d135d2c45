"""Contractions in tile registers: float32 to float32's accuracy out of bfloat16, for all operands, sizes and numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import burn
from burn.codegen.cpu.heuristics.amx import amx_pays, tile_groups
from burn.codegen.cpu.target import TARGETS
from burn.compiler import executable
from burn.dialect import ops
from burn.dialect.dims import Dim, evaluate, symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.runtime import _native
from burn.runtime.executable import Executable
from burn.runtime.host import features

pytestmark = pytest.mark.skipif(not set(TARGETS["amx"].features) <= features(), reason="this CPU has no tile registers")

UNIT = 2.0**-24


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Compiles for tiles a program that must use them."""
    text = tmp_path / "code.mlir"
    monkeypatch.setenv("BURN_DUMP_MLIR", str(text))

    def compile_(program: Program) -> Executable:
        run = executable(program, Options(target="amx"))
        assert "tdpbf16ps" in text.read_text()
        return run

    return compile_


def matmul_of(m: Dim, k: Dim, n: Dim, turned: str, batch: tuple[Dim, ...] = ()) -> Program:
    """[m, k] by [k, n] in batches; `turned` names the transposed operands."""
    left, right = ((k, m) if "a" in turned else (m, k)), ((n, k) if "b" in turned else (k, n))
    types = [("a", TensorType("float32", (*batch, *left))), ("b", TensorType("float32", (*batch, *right)))]
    program, axes = Program.create(types), tuple(range(len(batch)))
    with program.building("product"):
        a, b = program.inputs
        depths = {"lhs_contract": (len(axes) + ("a" not in turned),), "rhs_contract": (len(axes) + ("b" in turned),)}
        y = ops.dot_general(a, b, lhs_batch=axes, rhs_batch=axes, **depths)
    return program.finish([("y", y)])


def random_pair(rng: np.random.Generator, m: int, k: int, n: int, batch: tuple[int, ...] = ()) -> list[np.ndarray]:
    return [rng.standard_normal((*batch, *shape), np.float32) for shape in ((m, k), (k, n))]


def laid_out(a: np.ndarray, b: np.ndarray, turned: str) -> list[np.ndarray]:
    return [
        np.ascontiguousarray(x.swapaxes(-1, -2)) if name in turned else x for name, x in (("a", a), ("b", b))
    ]  # fmt: skip


def check(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    want, size = a.astype("f8") @ b, abs(a).astype("f8") @ abs(b)
    assert got.shape == want.shape
    assert np.all(abs(got - want) <= UNIT * (a.shape[-1] + 2) * size)


def one_by_one(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A matmul by multiply-adds in float32: multiplying two of these is exact in float64."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = (total + a[:, k : k + 1].astype("f8") * b[k]).astype("f4")
    return total


@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_sides(compiled, turned: str) -> None:
    """All sizes symbolic, in batches: what fills tiles, what does not, what is too small for tiles, and nothing."""
    run = compiled(matmul_of(symbol("m"), symbol("k"), symbol("n"), turned, (symbol("g"),)))
    rng = np.random.default_rng(1)
    for m, k, n, g in [
        (64, 128, 128, 1),
        (257, 131, 163, 3),
        (293, 941, 129, 2),
        (66, 131, 1063, 2),
        (2, 600, 80, 1),
        (1, 129, 200, 2),
        (290, 0, 290, 1),
        (0, 140, 170, 2),
    ]:
        a, b = random_pair(rng, m, k, n, (g,))
        check(run(*laid_out(a, b, turned)), a, b)


@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_sizes_that_are_known(compiled, turned: str) -> None:
    """A depth in one part, and in several; strips of rows and panels of columns shared out among threads."""
    rng = np.random.default_rng(2)
    for m, k, n in [(64, 128, 128), (1031, 129, 133), (261, 930, 259), (67, 131, 1031)]:
        a, b = random_pair(rng, m, k, n)
        check(compiled(matmul_of(m, k, n, turned))(*laid_out(a, b, turned)), a, b)


def test_a_last_part_of_one_row(compiled) -> None:
    """Rows of the last part of a split contraction are written completely next to those of the only block."""
    depth = 11 * TARGETS["amx"].costs.amx_part + 1
    a, b = random_pair(np.random.default_rng(6), 290, depth, 129)
    check(compiled(matmul_of(290, depth, 129, ""))(a, b), a, b)


def test_whole_blocks_of_an_unknown_number(compiled) -> None:
    """A number of rows, or a depth, that is a multiple of 256."""
    length = symbol("batch") * 256
    rows, depth = compiled(matmul_of(length, 128, 129, "")), compiled(matmul_of(259, length, 129, "a"))
    for batch in (0, 1, 3):
        a, b = random_pair(np.random.default_rng(batch), 256 * batch, 128, 129)
        check(rows(a, b), a, b)
        a, b = random_pair(np.random.default_rng(batch), 259, 256 * batch, 129)
        check(depth(*laid_out(a, b, "a")), a, b)


def test_errors_are_those_of_float32(compiled) -> None:
    """No larger, in the mean, than that of one multiply-add in float32 after the other."""
    a, b = random_pair(np.random.default_rng(3), 256, 1024, 128)
    want = a.astype("f8") @ b
    made = compiled(matmul_of(256, 1024, 128, ""))(a, b), one_by_one(a, b)
    error, plain = (np.sqrt(np.mean((y - want) ** 2)) for y in made)
    assert error <= plain


@pytest.mark.parametrize("turned", ["", "ab"])
def test_numbers_that_do_not_split(compiled, turned: str) -> None:
    """Infinities, NaN, the largest numbers, and sums that overflow come out as float32 has them; the smallest count as zero."""
    m, k, n = 260, 129, 131
    a, b = random_pair(np.random.default_rng(4), m, k, n)
    largest = np.finfo(np.float32).max
    a[3, 5], a[40, 7], b[20, 80] = np.inf, np.nan, -np.inf
    a[70] = b[:, 0] = largest
    a[33] = 0
    a[33, 0], b[0, 50] = largest, 1
    a[99], a[98] = 2.0**-140, 2.0**-100
    with np.errstate(all="ignore"):
        want = one_by_one(a, b)
    got = compiled(matmul_of(m, k, n, turned))(*laid_out(a, b, turned))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
    assert got[33, 50] == largest
    rest = np.isfinite(want)
    np.testing.assert_allclose(got[rest], want[rest], rtol=1e-4, atol=1e-4)
    tiny = a[98:100].astype("f8") @ b[:, 1:20]
    assert np.all(abs(got[98:100, 1:20] - tiny) <= 2.0**-126 * (2 + abs(b[:, 1:20]).sum(0)) + 1e-5 * abs(tiny))


def test_what_follows_and_what_is_broadcast(compiled) -> None:
    """An lhs without the batch, a constant rhs in panels, a bias, and several results of one matmul with a split depth."""
    rng = np.random.default_rng(5)
    a, w = rng.standard_normal((260, 921), np.float32), rng.standard_normal((921, 200), np.float32)
    b, bias = rng.standard_normal((3, 921, 129), np.float32), rng.standard_normal(200).astype("f4")
    types = [(name, TensorType("float32", x.shape)) for name, x in (("a", a), ("b", b), ("bias", bias))]
    program = Program.create(types)
    with program.building("products"):
        x, y, z = program.inputs
        wide = ops.broadcast_to(x, shape=(3, 260, 921))
        batches = ops.dot_general(
            wide, y, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(2,), rhs_contract=(1,)
        )  # fmt: skip
        constant = ops.weight(key=program.weights.add_array(w, "w"), shape=w.shape, dtype="float32")
        moved = ops.add(ops.dot_general(x, constant, lhs_contract=(1,), rhs_contract=(0,)), z)
        bent = ops.mul(ops.exp(ops.neg(ops.abs(moved))), moved)
    first, second, third = compiled(program.finish([("p", batches), ("q", moved), ("r", bent)]))(a, b, bias)
    wanted = a.astype("f8") @ w + bias
    np.testing.assert_allclose(first, a.astype("f8") @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(second, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(third, np.exp(-abs(wanted)) * wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 3, 5])
def test_threads_share_panels_or_strips(compiled, threads: int) -> None:
    """More rows than columns and fewer, more threads than there is work for: each thread takes one range."""
    run = compiled(matmul_of(symbol("m"), 131, 451, ""))
    before = _native.num_threads()
    burn.set_num_threads(threads)
    try:
        for m in (64, 65, 250, 900):
            a, b = random_pair(np.random.default_rng(m), m, 131, 451)
            check(run(a, b), a, b)
    finally:
        burn.set_num_threads(before)


@pytest.mark.parametrize(
    ("panels", "strips", "threads", "pay"),
    [
        (96, 4, 1, True),
        (96, 4, 2, True),
        (96, 4, 16, False),  # vectors are shared out evenly, and hardly slower by then
        (24, 4, 2, True),
        (256, 64, 16, True),  # the cost of copies is small next to so many multiplications
        (1, 2, 8, False),
    ],
)
def test_tile_registers_by_the_number_of_threads(panels: int, strips: int, threads: int, pay: bool) -> None:
    costs = TARGETS["amx"].costs
    groups = evaluate(tile_groups(panels, strips), {"<threads>": threads})
    assert (
        all(evaluate(n, {"<threads>": threads}) >= least for n, least in amx_pays(panels, strips, groups, costs)) == pay
    )


def test_convolutions_of_one_pixel(compiled) -> None:
    """Their window is no loop: rows are pixels, and the depth is channels."""
    rng = np.random.default_rng(8)
    x, w = rng.standard_normal((1, 131, 9, 8), np.float32), rng.standard_normal((133, 131, 1, 1), np.float32)
    program = Program.create([("x", TensorType("float32", x.shape))])
    options = {"strides": (1, 1), "dilations": (1, 1), "low": (0, 0), "high": (0, 0)}
    with program.building("convolution"):
        weight = ops.weight(key=program.weights.add_array(w, "w"), shape=w.shape, dtype="float32")
        y = ops.conv(program.inputs[0], weight, **options)
    got = compiled(program.finish([("y", y)]))(x)
    a, b = x[0].reshape(131, -1).T, w[:, :, 0, 0].T
    check(got[0].reshape(133, -1).T, a, b)
