"""Autotuning on CPUs: every variant of passes' decisions and of kernels gives the right results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.codegen.artefact import artefact_of
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.candidates import Panel, Winograd
from burn.codegen.cpu.target import TARGETS
from burn.codegen.tuning.choices import Choices, Variant
from burn.compiler import backend_for, environment
from burn.dialect.program import Program
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.executable import Executable
from burn.tracing.trace import arguments_of, trace_call
from tests.codegen.cpus import FLOAT_TARGETS, RUNNABLE

pytestmark = pytest.mark.untuned

rng = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def traced(function: Any, types: Sequence[str]) -> Program:
    return trace_call(function, arguments_of(function, list(types), None)).program


def fused(program: Program, backend: CPU) -> Program:
    copy = program.copy()
    pipeline.run(pipeline.parse(backend.pipeline.text), copy, environment(backend))
    return copy


def seen(program: Program, backend: CPU) -> dict[str, list[Variant]]:
    """All variants of passes' decisions and of the kernels of the result."""
    found: dict[str, list[Variant]] = {}
    told = replace(backend, choices=replace(backend.choices, seen=found))
    told.printer.describe(fused(program, told))
    return found


def every(function: Any, types: Sequence[str], target: str | None = None, exact: bool = False) -> Iterator[Executable]:
    """The function compiled with everything in its first variant, then in its second, and so on. Decisions of passes have few
    variants, so they stay at the last one while kernels start over."""
    program, plain = traced(function, types), backend_for(Options(target, exact=exact))
    assert isinstance(plain, CPU)
    early = {
        key: variants for key, variants in seen(program, plain).items() if isinstance(variants[0], (Panel, Winograd))
    }
    for numbers in itertools.product(*(range(n) for n in _counts(early))):
        chosen = {
            key: variants[min(numbers[isinstance(variants[0], Winograd)], len(variants) - 1)]
            for key, variants in early.items()
        }
        backend = replace(plain, choices=Choices(chosen))
        variants = {key: found for key, found in seen(program, backend).items() if key not in early}
        rounds = max(map(len, variants.values()), default=1) if not any(numbers) else 1
        for number in range(rounds):
            picked = {key: found[min(number, len(found) - 1)] for key, found in variants.items()}
            tried = replace(backend, choices=Choices({**chosen, **picked}))
            copy = fused(program, tried)
            yield Executable(artefact_of(copy, tried.printer.build(copy), tried))


def _counts(early: Mapping[str, Sequence[Variant]]) -> tuple[int, int]:
    def most(kind: type) -> int:
        return max((len(variants) for variants in early.values() if isinstance(variants[0], kind)), default=1)

    return most(Panel), most(Winograd)


def close(got: Any, want: np.ndarray, least: float = 2e-6) -> None:
    """Within a few roundings of the largest result; and it is a bound for sums of some hundred terms."""
    assert got.shape == want.shape
    if want.size:
        assert np.abs(got - want).max() <= least * max(1.0, float(np.abs(want).max())) * 8


# ---- every form is right -----------------------------------------------------------------------------------------------------

MATMULS = [
    (1, 7, 5),
    (3, 1, 17),
    (8, 64, 48),
    (67, 129, 131),
    (61, 1100, 33),
    (150, 2050, 70),
    (257, 64, 48),
    (0, 5, 7),
    (5, 0, 7),
]


@pytest.mark.covering
@pytest.mark.parametrize("target", FLOAT_TARGETS)
@pytest.mark.parametrize("sizes", MATMULS, ids=str)
def test_matmuls(sizes: tuple[int, int, int], target: str) -> None:
    m, k, n = sizes
    x, w = random(m, k), random(k, n)
    want = np.maximum(x.astype(np.float64) @ w, 0.0)
    made = list(every(lambda x, w: burn.relu(x @ w), [f"float32[{m}, {k}]", f"float32[{k}, {n}]"], target))
    assert len(made) > 1 or 2 * m * k * n + 4 * (m * k + k * n + m * n) < 16384
    for run in made:
        close(run(x, w), want)


@pytest.mark.parametrize("turned", ["", "left", "right"])
def test_matmuls_of_runtime_sizes(turned: str) -> None:
    """One program for all sizes; operands contiguous and transposed."""

    def function(x: Any, w: Any) -> Any:
        return (x.T if turned == "left" else x) @ (w.T if turned == "right" else w)

    left = "float32[k, m]" if turned == "left" else "float32[m, k]"
    right = "float32[n, k]" if turned == "right" else "float32[k, n]"
    cases = [
        (random(m, k), random(k, n)) for m, k, n in ((0, 3, 4), (1, 1, 1), (1, 300, 17), (37, 1, 70), (90, 1500, 33))
    ]
    for run in every(function, [left, right]):
        for x, w in cases:
            given = [np.ascontiguousarray(a.T) if turned == side else a for side, a in (("left", x), ("right", w))]
            close(run(*given), x.astype(np.float64) @ w)


@pytest.mark.parametrize("rows", ["n", "70"])
def test_matmuls_with_constants(rows: str) -> None:
    """Whose panels are laid out while compiling, as wide as they may be."""
    w, bias = random(190, 75), random(75)
    for run in every(lambda x: burn.tanh(x @ burn.constant(w) + burn.constant(bias)), [f"float32[{rows}, 190]"]):
        for n in (0, 1, 2, 70) if rows == "n" else (70,):
            x = random(n, 190)
            close(run(x), np.tanh(x.astype(np.float64) @ w + bias))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_matmuls_of_other_types(dtype: str) -> None:
    x, w = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((35, 61), (61, 39)))
    want = (x.astype(np.float64) @ w.astype(np.float64)).astype(dtype)
    for run in every(lambda x, w: x @ w, [f"{dtype}[35, 61]", f"{dtype}[61, 39]"]):
        np.testing.assert_array_equal(run(x, w), want)


@pytest.mark.parametrize("rows", ["1", "13", "n"])
def test_matmuls_with_low_bit_weights(rows: str) -> None:
    """In blocks of 64, which lie in panels as bytes do."""
    numbers, scale = rng.integers(0, 16, (70, 5, 64)).astype(np.uint8), random(70, 5)
    held = numbers[..., ::2] | numbers[..., 1::2] << 4
    w = ((numbers - 8.0) * scale[..., None]).reshape(70, 320)

    def function(x: Any) -> Any:
        return ops.block_dot(x, burn.constant(held), burn.constant(scale), None, bits=4, block=64)

    for run in every(function, [f"float32[{rows}, 320]"]):
        for n in (0, 1, 9, 40) if rows == "n" else (int(rows),):
            x = random(n, 320)
            close(run(x), x.astype(np.float64) @ w.T, 1e-5)


def test_no_rows_by_a_depth_that_a_run_tells() -> None:
    for run in every(lambda x, w: x @ w, ["float32[0, k]", "float32[k, 50]"]):
        assert run(random(0, 700), random(700, 50)).shape == (0, 50)


@pytest.mark.parametrize("batch", [1, 3])
def test_batches(batch: int) -> None:
    x, w = random(batch, 19, 43), random(batch, 43, 50)
    for run in every(lambda x, w: x @ w, [f"float32[{batch}, 19, 43]", f"float32[{batch}, 43, 50]"]):
        close(run(x, w), x.astype(np.float64) @ w)


CONVOLUTIONS = {
    "1x1": (1, 1, 1, 5, 33),
    "3x3": (3, 1, 1, 8, 17),
    "strided": (3, 2, 1, 6, 19),
    "grouped": (3, 1, 3, 9, 12),
    "depthwise": (3, 1, 20, 20, 20),
    "depthwise, strided": (5, 2, 7, 7, 7),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("images", ["2", "n"])
def test_convolutions(name: str, images: str) -> None:
    torch = pytest.importorskip("torch")
    size, stride, groups, channels, outputs = CONVOLUTIONS[name]
    weight = random(outputs, channels // groups, size, size)
    pad = (size // 2,) * 2

    def function(x: Any) -> Any:
        attrs = {"strides": (stride,) * 2, "low": pad, "high": pad, "dilations": (1, 1), "groups": groups}
        return burn.relu(ops.conv(x, burn.constant(weight), **attrs))

    for run in every(function, [f"float32[{images}, {channels}, 13, 11]"]):
        for n in (0, 1, 2) if images == "n" else (2,):
            x = random(n, channels, 13, 11)
            wide = [torch.from_numpy(a.astype(np.float64)) for a in (x, weight)]
            want = torch.nn.functional.conv2d(*wide, stride=stride, padding=size // 2, groups=groups).relu().numpy()
            close(run(x), want, 2e-5)  # in the Winograd domain the error is up to five times that of the plain sum


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        rows, keys = scores.shape[-2:]
        scores = np.where(np.tril(np.ones((rows, keys), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.covering
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [("2", 2), ("67", 67), ("150", 150), ("n", 1), ("n", 83)], ids=str)
def test_attention(sizes: tuple[str, int], causal: bool) -> None:
    name, rows = sizes
    q, k, v = (random(1, 2, rows, 24) for _ in range(3))

    def function(q: Any, k: Any, v: Any) -> Any:
        return ops.attention(q, k, v, causal=causal, scale=24**-0.5)

    for run in every(function, [f"float32[1, 2, {name}, 24]"] * 3):
        close(run(q, k, v), attended(q, k, v, causal), 1e-5)


@pytest.mark.parametrize("rows", [5, 67])
def test_attention_on_its_way_back(rows: int) -> None:
    q, k, v = (random(1, 2, rows, 20) for _ in range(3))

    def function(q: Any, k: Any, v: Any) -> Any:
        def total(*operands: Any) -> Any:
            return (ops.attention(*operands, causal=False, scale=20**-0.5) ** 2.0).sum()

        return burn.grad(total, argnums=(0, 1, 2))(q, k, v)

    usual, *others = every(function, [f"float32[1, 2, {rows}, 20]"] * 3)
    want = usual(q, k, v)
    assert others
    for run in others:
        for a, b in zip(run(q, k, v), want, strict=True):
            close(a, b, 1e-5)


LOOPS = {
    "pointwise": (lambda x: burn.tanh(x) * 2.0, lambda x: np.tanh(x) * 2.0),
    "turned": (lambda x: x.T + 1.0, lambda x: x.T + 1.0),
    "rows": (lambda x: burn.softmax(x, axis=-1), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "columns": (lambda x: x.sum(0), lambda x: x.sum(0)),
    "largest": (lambda x: x.argmax(-1), lambda x: x.argmax(-1)),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("sizes", [("3", "1", 3, 1), ("97", "131", 97, 131), ("a", "b", 50, 70), ("a", "b", 1, 9000)])
def test_loops(name: str, sizes: tuple[str, str, int, int]) -> None:
    function, want = LOOPS[name]
    x = random(*sizes[2:])
    for run in every(function, [f"float32[{sizes[0]}, {sizes[1]}]"]):
        close(run(x), want(x.astype(np.float64)), 1e-5)


@pytest.mark.skipif("avx512" not in RUNNABLE, reason="needs AVX-512")
def test_chunks_of_loops_consist_of_whole_vectors() -> None:
    """Rows of 9 padded elements use 9 of 16 lanes. A chunk that is no multiple of 9 would start within a vector."""
    x = random(2, 48, 4, 3)

    def function(x: Any) -> Any:
        return ops.pad(x, 0.0, low=(0, 0, 0, 3), high=(0, 0, 0, 3), interior=(0,) * 4)

    usual, *others = every(function, ["float32[2, 48, 4, 3]"], "avx512")
    assert others
    for run in (usual, *others):
        np.testing.assert_array_equal(run(x), np.pad(x, ((0, 0), (0, 0), (0, 0), (3, 3))))


def test_exact_sums_stay_as_they_stand() -> None:
    """To the last bit, whatever else is chosen."""
    x, w = random(90, 1500), random(1500, 75)
    results = [
        run(x, w)
        for run in every(lambda x, w: burn.tanh(x @ w), ["float32[90, 1500]", "float32[1500, 75]"], exact=True)
    ]
    assert len(results) > 2
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_what_is_small_has_no_choice() -> None:
    program = traced(lambda x: x @ x, ["float32[4, 4]"])
    assert not [
        f for f in seen(program, CPU(TARGETS[FLOAT_TARGETS[0]])).values() if not isinstance(f[0], (Panel, Winograd))
    ]
