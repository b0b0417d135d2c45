"""Autotuning on CPUs: every form that a kernel may have gives the right results, the fastest is taken and noted, and what is
noted is not timed again. Times here are made up."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import burn
from burn import ops
from burn.codegen.artefact import artefact_of
from burn.codegen.backend import Built
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.candidates import Panel, Winograd
from burn.codegen.cpu.target import TARGETS
from burn.codegen.tuning import clock
from burn.codegen.tuning.book import Book
from burn.codegen.tuning.choices import Choices, Variant
from burn.codegen.tuning.search import TRIED, Trial, search
from burn.compiler import backend_for, environment
from burn.dialect.program import Program
from burn.errors import BurnError, CompileError, TypeMismatch
from burn.options import Options
from burn.passes import pipeline
from burn.runtime import versions
from burn.runtime.executable import Executable
from burn.tracing.trace import arguments_of, trace_call
from tests.codegen.cpus import FLOAT_TARGETS

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


# ---- the search --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    number: int


@dataclass
class Parts:
    """A program of two parts, whose times are made up. See `burn.codegen.tuning.search.Subject`."""

    sizes: dict[str, list[Size]] = field(
        default_factory=lambda: {"a": [Size(0), Size(1), Size(2)], "b": [Size(5), Size(6)], "c": [Size(7)]}
    )
    built: list[dict[str, Size]] = field(default_factory=list)
    interleaved: int = 1
    worth = 0.95

    def text(self) -> str:
        return "a program of two parts"

    def variants(self) -> dict[str, list[Variant]]:
        return dict(self.sizes)

    def prepare(self, trials: Sequence[Mapping[str, Variant]]) -> set[tuple[str, int]]:
        return set()

    def build(self, trials: Sequence[Mapping[str, Variant]]) -> list[Trial]:
        self.built += map(dict, trials)
        none = Built(b"", (), (), (), (), (), ())
        return [Trial(picked, none, {0: ("a",), 1: ("b",), 2: ()}) for picked in trials]  # type: ignore[arg-type]


class Times:
    """By the numbers of forms; what was measured is counted. slower: by how much each measurement is slower than the last."""

    def __init__(self, times: dict[int, float], slower: float = 1.0) -> None:
        self.times, self.slower, self.calls = times, slower, 0

    def __call__(self, trials: Sequence[Trial]) -> list[list[float]]:
        self.calls += 1
        factor = self.slower**self.calls
        return [[self.times[trial.program[key].number] * factor for key in ("a", "b")] + [1.0] for trial in trials]  # type: ignore[index]


NOWHERE = Book(None)


@pytest.mark.parametrize("interleaved", [0, 1, 3])
def test_the_fastest_is_taken(interleaved: int) -> None:
    times = Times({0: 1.0, 1: 0.5, 2: 0.7, 5: 1.0, 6: 1.1})
    assert search(Parts(interleaved=interleaved), "full", NOWHERE, times) == {"a": Size(1), "b": Size(5)}


def test_ties_and_a_little_less_keep_the_usual() -> None:
    assert search(Parts(), "full", NOWHERE, Times({0: 1.0, 1: 1.0, 2: 0.96, 5: 1.0, 6: 1.0})) == {
        "a": Size(0),
        "b": Size(5),
    }


def test_a_machine_that_slows_down_is_no_reason() -> None:
    times = Times({0: 1.0, 1: 0.9, 2: 0.8, 5: 1.0, 6: 0.99}, slower=1.5)
    assert search(Parts(), "full", NOWHERE, times) == {"a": Size(2), "b": Size(5)}


def test_what_is_not_faster_again_is_given_up() -> None:
    class Lucky(Times):
        def __call__(self, trials: Sequence[Trial]) -> list[list[float]]:
            found = super().__call__(trials)
            if self.calls == 3:  # both at once
                found[1][0] = 1.0
            return found

    times = Lucky({0: 1.0, 1: 0.9, 2: 0.8, 5: 1.0, 6: 0.5})
    assert search(Parts(), "full", NOWHERE, times) == {"a": Size(0), "b": Size(6)}


def test_a_program_that_is_no_faster_stays_as_it_is() -> None:
    class Elsewhere(Times):
        def __call__(self, trials: Sequence[Trial]) -> list[list[float]]:
            found = super().__call__(trials)
            if self.calls == 3:
                found[1][2] = 9.0  # a launch that no choice is about
            return found

    times = Elsewhere({0: 1.0, 1: 0.9, 2: 0.8, 5: 1.0, 6: 0.5})
    assert search(Parts(), "full", NOWHERE, times) == {"a": Size(0), "b": Size(5)}


def test_short_searches_try_few() -> None:
    sizes = {"a": [Size(n) for n in range(9)]}
    times = Times(dict.fromkeys(range(9), 1.0) | {5: 0.1, 3: 0.5})
    parts = Parts(sizes)

    def only_a(trials: Sequence[Trial]) -> list[list[float]]:
        return [[times.times[trial.program["a"].number], 0.0] for trial in trials]  # type: ignore[index]

    assert search(parts, "fast", NOWHERE, only_a) == {"a": Size(3)}
    assert TRIED["fast"] == 4
    assert search(Parts(sizes), "full", NOWHERE, only_a) == {"a": Size(5)}


def test_the_book(tmp_path: Path) -> None:
    book, times = Book(tmp_path / "a machine"), Times({0: 1.0, 1: 0.5, 2: 0.7, 5: 1.0, 6: 1.1})
    found = search(Parts(), "full", book, times)
    calls = times.calls
    assert search(Parts(), "full", book, times) == found and times.calls == calls
    (tmp_path / "a machine" / "a.json").write_text('{"shape": 3')
    assert search(Parts(), "full", book, times) == found and times.calls > calls


@pytest.mark.parametrize("interleaved", [1, 3])
def test_decisions_of_short_launches_keep_the_default(interleaved: int, tmp_path: Path) -> None:
    """Those of `b` take less than 5 % of the time: they are tried once, beside the first variant of `a`."""
    parts = Parts({"a": [Size(n) for n in range(6)], "b": [Size(10 + n) for n in range(12)]}, interleaved=interleaved)
    times = Times({0: 1.0, 1: 1.0, 2: 1.0, 3: 0.9, 4: 0.7, 5: 0.8} | dict.fromkeys(range(10, 22), 0.001))
    times.times[11] = 0.0001
    book = Book(tmp_path)
    assert search(parts, "full", book, times) == {"a": Size(4), "b": Size(10)}
    assert {trial["b"].number for trial in parts.built} == {10, 11} and len(parts.built) == 1 + 5 + 2
    calls = times.calls
    assert search(parts, "full", book, times) == {"a": Size(4), "b": Size(10)} and times.calls == calls
    alone = Parts({"b": parts.sizes["b"]})
    assert search(alone, "full", book, lambda trials: [[times.times[t.program["b"].number]] * 2 for t in trials]) == {  # type: ignore[index]
        "b": Size(11)
    }


# ---- from outside ------------------------------------------------------------------------------------------------------------


@dataclass
class Counted:
    """A clock by which the first of some programs, which has the usual forms, is always the fastest; or the slowest, where
    `others` is less than 1."""

    calls: int = 0
    others: float = 10.0

    def __call__(self, program: Program, artefacts: Sequence[Any], device: Any) -> list[list[float]]:
        self.calls += 1
        return [[self.others**number] * len(artefact.kernels) for number, artefact in enumerate(artefacts)]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    made = Counted()
    monkeypatch.setattr(clock, "seconds", made)
    return made


TYPES = ["float32[90, 150]", "float32[150, 80]"]


def matmul(x: Any, w: Any) -> Any:
    return burn.tanh(x @ w)


def test_a_second_time_nothing_is_timed(own_cache: Path, counted: Counted) -> None:
    burn.compile(matmul, TYPES, autotune="fast")
    calls = counted.calls
    assert calls > 0
    burn.compile(matmul, TYPES, autotune="fast")
    burn.compile(matmul, TYPES, autotune="fast", cache=False)
    assert counted.calls == calls
    (folder,) = (own_cache / "tuned").iterdir()
    for file in folder.iterdir():
        file.write_text("damaged")
    burn.compile(matmul, TYPES, autotune="fast", cache=False)
    assert counted.calls > calls


@pytest.mark.parametrize("changed", ["installed", "native_runtime", "sources"])
def test_results_of_other_versions_are_timed_again(
    changed: str, own_cache: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    burn.compile(matmul, TYPES, autotune="fast", cache=False)
    calls = counted.calls
    monkeypatch.setattr(versions, changed, lambda *_: "another version")
    burn.compile(matmul, TYPES, autotune="fast", cache=False)
    assert counted.calls > calls
    calls = counted.calls
    burn.compile(matmul, TYPES, autotune="fast", cache=False)
    assert counted.calls == calls


def test_another_number_of_threads_is_another_machine(own_cache: Path, counted: Counted) -> None:
    from burn.runtime import _native

    threads = _native.num_threads()
    try:
        for number in (1, 2):
            burn.set_num_threads(number)
            before = counted.calls
            burn.compile(matmul, TYPES, autotune="fast")
            assert counted.calls > before
        assert len(list((own_cache / "tuned").iterdir())) == 2
    finally:
        burn.set_num_threads(threads)


def test_what_is_compiled_without_is_another_program(own_cache: Path, counted: Counted) -> None:
    usual = burn.compile(matmul, TYPES)
    assert not counted.calls
    tuned = burn.compile(matmul, TYPES, autotune="fast")
    assert counted.calls
    assert tuned.artefact.code == usual.artefact.code  # all others are slower
    assert burn.compile(matmul, TYPES, autotune="off").artefact.code == usual.artefact.code


def test_what_is_faster_is_compiled(own_cache: Path, counted: Counted) -> None:
    counted.others = 0.1
    x, w = random(90, 150), random(150, 80)
    usual, tuned = (burn.compile(matmul, TYPES, autotune=mode) for mode in ("off", "fast"))
    assert tuned.artefact.code != usual.artefact.code
    close(tuned(x, w), np.tanh(x.astype(np.float64) @ w))
    calls = counted.calls
    again = burn.compile(matmul, TYPES, autotune="fast", cache=False)
    assert counted.calls == calls and again.artefact.code == tuned.artefact.code


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_whole(mode: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the machine's own clock, a size with a name, an index, a convolution and random numbers."""
    monkeypatch.setattr(clock, "RUNS", 1)
    monkeypatch.setattr(clock, "LONG", 0.0)
    w, table = random(32, 48), random(5, 32)
    filters = random(8, 3, 3, 3)

    def function(i: Any, x: Any) -> Any:
        attrs = {"strides": (1, 1), "low": (1, 1), "high": (1, 1), "dilations": (1, 1), "groups": 1}
        image = ops.conv(x, burn.constant(filters), **attrs)
        return burn.tanh(ops.gather(burn.constant(table), i, axis=0)) @ burn.constant(w), image

    made = burn.compile(function, ["int64[n]", "float32[1, 3, 20, 20]"], autotune=mode)
    i = np.array([4, 0, 2, 2, 1])
    rows, _ = made(i, random(1, 3, 20, 20))
    close(rows, np.tanh(table[i].astype(np.float64)) @ w)


def test_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeMismatch, match="no autotuning 'most'"):
        burn.compile(matmul, TYPES, autotune="most")
    with pytest.raises(CompileError, match="made-up inputs"):  # every index is 0, and the axis is empty
        burn.compile(lambda i, x: ops.gather(x, i, axis=0) @ x.T, ["int64[300]", "float32[0, 400]"], autotune="fast")
    monkeypatch.setenv("BURN_AUTOTUNE", "most")
    with pytest.raises(BurnError, match="BURN_AUTOTUNE is malformed"):
        burn.compile(matmul, TYPES)


def texts() -> bytes:
    """A model of strings."""
    node = helper.make_node("StringConcat", ["x", "x"], ["y"])
    inputs, outputs = ([helper.make_tensor_value_info(name, TensorProto.STRING, [2])] for name in "xy")
    graph = helper.make_graph([node], "texts", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()


def chains(first: int, second: int) -> Any:
    """So many launches of each of two kernels."""

    def function(x: Any, y: Any) -> Any:
        for _ in range(first):
            x = burn.tanh(x @ x)
        for _ in range(second):
            y = burn.tanh(y @ y)
        return x, y

    return function


def test_decisions_matter_by_their_launches(own_cache: Path, counted: Counted) -> None:
    """Two programs with the same decisions. Each leaves out the decision that only one of its launches depends on."""
    counted.others, types = 0.1, ["float32[96, 96]", "float32[101, 101]"]
    for first, second in ((21, 1), (1, 21)):
        calls = counted.calls
        burn.compile(chains(first, second), types, autotune="fast", cache=False)
        assert counted.calls > calls
    calls = counted.calls
    for first, second in ((21, 1), (1, 21)):
        burn.compile(chains(first, second), types, autotune="fast", cache=False)
    assert counted.calls == calls


def test_strings_are_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match="lists or strings"):
        burn.load(texts(), autotune="fast")
    monkeypatch.setenv("BURN_AUTOTUNE", "fast")  # which tunes only if it is possible
    assert burn.load(texts())(np.array(["a", "b"], object)).tolist() == ["aa", "bb"]


def test_the_environment_names_the_mode(own_cache: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_AUTOTUNE", "fast")
    burn.compile(matmul, TYPES, autotune="off")
    assert not counted.calls
    burn.compile(matmul, TYPES)
    assert counted.calls


def test_forms_are_drawn_by_a_seed(own_cache: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests: every one of them is right, and nothing is timed."""
    x, w = random(90, 150), random(150, 80)
    made = set()
    for seed in range(6):
        monkeypatch.setenv("BURN_AUTOTUNE", f"any:{seed}")
        run = burn.compile(matmul, TYPES)
        close(run(x, w), np.tanh(x.astype(np.float64) @ w))
        made.add(bytes(run.artefact.code))
        assert bytes(burn.compile(matmul, TYPES, cache=False).artefact.code) == bytes(run.artefact.code)
    assert len(made) > 2 and not counted.calls


def test_the_command(tmp_path: Path, own_cache: Path, counted: Counted) -> None:
    from click.testing import CliRunner

    from burn.cli.run import main

    weight = numpy_helper.from_array(random(150, 80), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [90, 150])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [90, 80])],
        [weight],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    done = CliRunner().invoke(main, [str(path), "--autotune", "fast", "--json"])
    assert done.exit_code == 0, done.output
    assert counted.calls and list((own_cache / "tuned").glob("*/*.json"))
