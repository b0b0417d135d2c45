"""Contractions of bfloat16 whose constant rhs is packed in pairs: one instruction for two depth elements, sums in float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import burn
from burn.codegen.cpu.heuristics.amx import bytes_fill
from burn.codegen.cpu.heuristics.panels import interleaved_width
from burn.codegen.cpu.target import TARGETS, Target, host_targets
from burn.compiler import compile_program
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.layouts import PackedMatmul
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features

RUNNABLE = [target.name for target in host_targets(features()) if target.name in ("amx", "avx512bf16", "avx2")]
INSTRUCTIONS = {"amx": ("tdpbf16ps",), "avx512bf16": ("dpbf16ps",), "vnni": (), "avx2": ()}
BF16 = np.dtype(ml_dtypes.bfloat16)


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(BF16)


def weight(program: Program, array: np.ndarray) -> object:
    return ops.weight(key=program.weights.add_array(array, "w"), shape=array.shape, dtype="bfloat16")


def matmul(right: np.ndarray) -> Program:
    """[n, depth] by a constant, as float32 and as bfloat16 after a bias and a rectifier."""
    depth, columns = right.shape
    program = Program.create([("x", TensorType("bfloat16", (symbol("n"), depth)))])
    with program.building("matmul"):
        y = ops.dot_general(
            program.inputs[0], weight(program, right), lhs_contract=(1,), rhs_contract=(0,), dtype="float32"
        )
        bias = weight(program, np.linspace(-1, 1, columns).astype(BF16))
        z = ops.cast(ops.relu(ops.add(y, ops.cast(bias, dtype="float32"))), dtype="bfloat16")
    return program.finish([("y", y), ("z", z)])


def bound(x: np.ndarray, right: np.ndarray) -> np.ndarray:
    """For sums in any order: each addition rounds to float32 once."""
    depth = right.shape[0]
    return (depth + 1) * 2.0**-24 * (np.abs(x.astype("f8")) @ np.abs(right.astype("f8"))) + 1e-37


@pytest.fixture(params=[True, False], ids=["pairs", "separated"])
def multiplies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Pairs by the instruction, and by two multiply-adds, as on CPUs where it is slow."""
    if not request.param:
        monkeypatch.setattr(Target, "multiplies_pairs", property(lambda target: False))
    return request.param


@pytest.mark.covering
@pytest.mark.usefixtures("multiplies")
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("depth", [1, 7, 64, 770, 2112])
@pytest.mark.parametrize("columns", [1, 33, 96, 416])
def test_matmuls(target: str, depth: int, columns: int) -> None:
    rng = np.random.default_rng(depth + columns)
    right = drawn(rng, depth, columns)
    bias = np.linspace(-1, 1, columns).astype(BF16).astype("f8")
    artefact = compile_program(matmul(right), Options(target=target, cache=False))
    for threads in (1, 3):
        burn.set_num_threads(threads)
        run = Executable(artefact)
        for rows in (0, 1, 15, 16, 33, 131):
            x = drawn(rng, rows, depth)
            y, z = run(x)
            want, most = x.astype("f8") @ right.astype("f8"), bound(x, right)
            assert (np.abs(y - want) <= most).all()
            after = np.maximum(want + bias, 0)
            assert (np.abs(z.astype("f8") - after) <= most + 2.0**-8 * np.abs(after)).all()


def transposed_matmul(right: np.ndarray) -> Program:
    """[n, depth, pixels] by a constant, over the middle axis: [n, pixels, columns]."""
    depth = right.shape[0]
    program = Program.create([("x", TensorType("bfloat16", (symbol("n"), depth, 21)))])
    with program.building("matmul"):
        y = ops.dot_general(
            program.inputs[0], weight(program, right), lhs_contract=(1,), rhs_contract=(0,), dtype="float32"
        )
    return program.finish([("y", y)])


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize(("depth", "columns"), [(64, 96), (33, 64), (16, 8), (1, 80)])
def test_depth_apart(target: str, depth: int, columns: int) -> None:
    """Channels-first images: the elements of a pair are apart, and are copied for many columns."""
    rng = np.random.default_rng(depth)
    right = drawn(rng, depth, columns)
    run = Executable(compile_program(transposed_matmul(right), Options(target=target, cache=False)))
    for images in (0, 1, 3):
        x = drawn(rng, images, depth, 21)
        rows = np.swapaxes(x, 1, 2)
        assert (np.abs(run(x) - rows.astype("f8") @ right.astype("f8")) <= bound(rows, right)).all()


def test_depth_apart_uses_the_instruction() -> None:
    right = drawn(np.random.default_rng(0), 64, 96)
    options = Options(target=TARGETS["avx512bf16"], as_text=True, cache=False)
    assert ".dpbf16ps." in bytes(compile_program(transposed_matmul(right), options).code).decode()


@pytest.mark.covering
@pytest.mark.usefixtures("multiplies")
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize(
    ("channels", "outputs", "window", "stride", "pad", "groups"),
    [
        (3, 32, 3, 2, 1, 1),
        (32, 64, 1, 1, 0, 1),
        (64, 40, 1, 2, 0, 1),
        (64, 96, 3, 1, 1, 1),
        (96, 64, 3, 2, 1, 1),
        (128, 128, 3, 1, 1, 2),
        (10, 10, 3, 1, 1, 2),
        (32, 32, 5, 1, 2, 1),
    ],
)
def test_convolutions(
    target: str, channels: int, outputs: int, window: int, stride: int, pad: int, groups: int
) -> None:
    """Rows of pixels that lie apart, and zeros around an image."""
    rng = np.random.default_rng(window)
    filters = drawn(rng, outputs, channels // groups, window, window)
    program = Program.create([("x", TensorType("bfloat16", (symbol("n"), channels, 9, 7)))])
    with program.building("convolution"):
        y = ops.conv(
            program.inputs[0], weight(program, filters), strides=(stride,) * 2, dilations=(1, 1), low=(pad,) * 2,
            high=(pad,) * 2, groups=groups, dtype="float32",
        )  # fmt: skip
    run = Executable(compile_program(program.finish([("y", y)]), Options(target=target, cache=False)))
    for images in (0, 1, 3):
        x = drawn(rng, images, channels, 9, 7)
        padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        views = np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(2, 3))
        views = views[:, :, ::stride, ::stride]
        each, few = channels // groups, outputs // groups

        def summed(left: np.ndarray, right: np.ndarray, each: int = each, few: int = few) -> np.ndarray:
            parts = [
                np.einsum(
                    "nchwij,ocij->nohw", left[:, g * each : (g + 1) * each], right[g * few : (g + 1) * few].astype("f8")
                )
                for g in range(groups)
            ]
            return np.concatenate(parts, axis=1)

        most = (each * window**2 + 1) * 2.0**-24 * summed(np.abs(views), np.abs(filters)) + 1e-37
        assert (np.abs(run(x) - summed(views, filters)) <= most).all()


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("rows", [1, 40])
def test_special_values(target: str, rows: int) -> None:
    """Infinities and NaN of a row stay in that row. Numbers and results below 2^-126 may count as zero."""
    rng = np.random.default_rng(rows)
    right = np.abs(drawn(rng, 64, 64))
    x = np.abs(drawn(rng, rows, 64))
    x[0, 3] = np.inf
    y, _ = Executable(compile_program(matmul(right), Options(target=target)))(x)
    assert np.isposinf(y[0]).all() and np.isfinite(y[1:]).all()
    x[0, 5] = -np.inf
    y, _ = Executable(compile_program(matmul(right), Options(target=target)))(x)
    assert np.isnan(y[0]).all() and np.isfinite(y[1:]).all()
    tiny = np.full((rows, 64), 2.0**-130).astype(BF16)
    y, _ = Executable(compile_program(matmul(right), Options(target=target)))(tiny)
    assert (np.abs(y - tiny.astype("f8") @ right.astype("f8")) <= 2.0**-126 * right.astype("f8").sum(0)).all()


@pytest.mark.untuned
@pytest.mark.parametrize("target", INSTRUCTIONS)
def test_instructions(target: str) -> None:
    """Cross compilation on any machine. `exact` sums one element after the other."""
    right = drawn(np.random.default_rng(0), 128, 96)
    for exact in (False, True):
        options = Options(target=TARGETS[target], as_text=True, exact=exact, cache=False)
        text = bytes(compile_program(matmul(right), options).code).decode()
        for name in ("tdpbf16ps", ".dpbf16ps."):
            assert (name in text) == (name.strip(".") in INSTRUCTIONS[target] and not exact)


def test_sizes_for_tile_registers() -> None:
    n = symbol("n")
    assert bytes_fill(n, 64, 128) == ((n, 16),)
    assert bytes_fill(n, 64, 2 * 48) is None  # 48 elements are no whole lines


def test_widths_of_panels() -> None:
    """Vectors of a panel by vectors of columns: all up to four, then three if four would leave a few. Eight rows or
    fewer, and tile registers, have four or two."""
    target = TARGETS["avx512bf16"]

    def vectors(columns: int, rows: int = 196, target: Target = target) -> int:
        return interleaved_width(PackedMatmul(rows, columns, 64, "float32", 2, 64), target) // 16

    assert [vectors(16 * n - 8) for n in range(1, 5)] == [1, 2, 3, 4]
    assert {n: vectors(16 * n) for n in (5, 7, 8, 9, 12, 15, 27, 48)} == {
        5: 3,
        7: 4,
        8: 4,
        9: 3,
        12: 4,
        15: 3,
        27: 3,
        48: 4,
    }
    assert vectors(144, rows=8) == 4 and vectors(144, target=TARGETS["amx"]) == 2
