"""Autotuning on a simulated GPU: it adopts and stores the fastest variants, and skips those that do not run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

import burn
from burn import ops
from burn.codegen.triton import candidates, tuning
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.heuristics.attention import Block, attention_block
from burn.codegen.triton.heuristics.matmul import matmul_tile
from burn.codegen.triton.images import Machine, Source
from burn.codegen.tuning import clock as clocks
from burn.codegen.tuning import search
from burn.codegen.tuning.book import Book
from burn.codegen.tuning.search import Trial
from burn.compiler import environment
from burn.dialect.dims import LoopVar, symbol
from burn.dialect.program import Program
from burn.errors import CompileError, TypeMismatch
from burn.passes import pipeline
from burn.runtime.artefact import KernelImage
from burn.tracing.trace import arguments_of, trace_call
from tests.codegen.gpu.simulated_gpu import SimulatedGPU

SIDE = 512


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("BURN_CACHE_SIZE", "1GB")
    return tmp_path / "tuned" / "A-GPU"


def fused(function: Any, *types: str) -> Program:
    made = trace_call(function, arguments_of(function, list(types), None)).program
    pipeline.run(pipeline.parse(GPU().pipeline.text), made, environment(GPU()))
    return made


def two_matmuls() -> Program:
    """Of different sizes, each twice."""

    def function(x: Any, y: Any) -> Any:
        return burn.tanh(burn.tanh(x @ x) @ x) @ (y @ y)

    return fused(function, f"float16[{SIDE}, {SIDE}]", f"float16[{SIDE}, {SIDE}]")


class Clock:
    """Says how long launches take: microseconds by the rows of the kernels' tiles."""

    def __init__(self, gpu: SimulatedGPU, microseconds: dict[int, float], otherwise: float = 9.0) -> None:
        self.gpu, self.microseconds, self.otherwise = gpu, microseconds, otherwise
        self.rounds: list[set[int]] = []

    def __call__(self, trials: Sequence[Trial]) -> Sequence[Sequence[float]]:
        (built,) = (trial.built for trial in trials)
        rows = [dict(self.gpu.sources[int(bytes(image.data))].named)["ROWS"] for image in built.images]
        self.rounds.append(set(rows))
        by_launch = [max(rows)] * len(built.records)
        return [[self.microseconds.get(r, self.otherwise) * 1e-6 for r in by_launch]]


def shapes_of(backend: GPU) -> set[int]:
    return {shape.rows for shape in backend.choices.picked.values()}


def test_the_fastest_is_taken_and_noted(gpu: SimulatedGPU, folder: Path) -> None:
    program = two_matmuls()
    usual = tuning.tuned(program, GPU(), "fast", "A GPU", Clock(gpu, {}, 1.0))
    assert len(list(folder.glob("*.json"))) == len(usual.choices.picked) > 1
    (rows,) = shapes_of(usual)
    for file in folder.glob("*.json"):
        file.unlink()
    clock = Clock(gpu, {rows: 5.0, **{r: 2.0 for r in (16, 32, 64, 128, 256) if r != rows}})
    best = tuning.tuned(program, GPU(), "full", "A GPU", clock)
    assert shapes_of(best) and rows not in shapes_of(best)
    assert len(clock.rounds) > 1

    def never(trials: Sequence[Trial]) -> Sequence[Sequence[float]]:
        raise AssertionError("it is known")

    again = tuning.tuned(program, GPU(), "full", "A GPU", never)
    assert again.choices.picked == best.choices.picked
    assert tuning.tuned(program, GPU(), "fast", "A GPU", never).choices.picked.keys() == best.choices.picked.keys()
    (file, *_) = folder.glob("*.json")
    file.write_text("{")
    tuning.tuned(program, GPU(), "full", "A GPU", clock)
    assert file.read_text() != "{"
    tuning.tuned(program, GPU(), "full", "Another GPU", Clock(gpu, {}))


def test_what_a_long_search_found_is_kept_by_a_short_one(folder: Path) -> None:
    shapes = candidates.tiles(512, 512, (LoopVar("k", 512),), 1, 16)
    book = Book(folder)
    book.put("key", shapes[9], {0: 2.0, 9: 1.0}, 13)
    assert book.get("key", shapes, 4) == shapes[9] == book.get("key", shapes, 13)
    assert book.get("key", shapes[:9], 4) is None and book.get("other", shapes, 4) is None
    book.put("key", shapes[1], {0: 2.0, 1: 1.0}, 4)
    assert book.get("key", shapes, 4) == shapes[1] and book.get("key", shapes, 13) is None


def test_a_little_faster_is_not_worth_it(gpu: SimulatedGPU) -> None:
    program = two_matmuls()
    (rows,) = shapes_of(tuning.tuned(program, GPU(), "full", "A GPU", Clock(gpu, {}, 1.0)))
    clock = Clock(gpu, {rows: 1.0}, 0.98)
    assert shapes_of(tuning.tuned(program, GPU(), "full", "Another GPU", clock)) == {rows}


def test_what_cannot_be_compiled_or_does_not_fit_is_left_out(
    gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = two_matmuls()
    (rows,) = shapes_of(tuning.tuned(program, GPU(), "full", "A GPU", Clock(gpu, {}, 1.0)))

    def compile_each(sources: Sequence[Source], machine: Machine) -> list[KernelImage | str]:
        made = gpu.compile_each(sources, machine)
        wrong = [
            "no registers" if number % 2 else KernelImage(s.name, b"0", 1 << 20, 128)
            for number, s in enumerate(sources)
        ]
        return [image if dict(s.named)["ROWS"] == rows else w for s, image, w in zip(sources, made, wrong, strict=True)]

    monkeypatch.setattr(tuning, "compile_each", compile_each)
    clock = Clock(gpu, {rows: 5.0}, 1.0)
    assert shapes_of(tuning.tuned(program, GPU(), "full", "Another GPU", clock)) == {rows}
    assert all(found == {rows} for found in clock.rounds)


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_whole(gpu: SimulatedGPU, mode: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From burn.compile, with the GPU's clock, dynamic sizes, and made-up indices."""
    monkeypatch.setattr(clocks, "RUNS", 1)
    monkeypatch.setattr(clocks, "TYPICAL", 7)
    rng = np.random.default_rng(0)
    w, table = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((32, 48), (5, 32)))

    def function(i: Any, w: Any, table: Any) -> Any:
        return burn.tanh(ops.gather(table, i, axis=0)) @ w

    types = ["int64[n]", "bfloat16[32, 48]", "bfloat16[5, 32]"]
    made = burn.compile(function, types, device="cuda", autotune=mode, cache=False)
    i = np.array([4, 0, 2, 2, 1])
    want = np.tanh(table[i].astype(np.float32)) @ w.astype(np.float32)
    np.testing.assert_allclose(made(i, w, table).astype(np.float32), want, atol=0.05, rtol=0.05)
    assert len({(s.name, s.named, s.warps, s.stages) for s in gpu.sources}) > 3
    (noted,) = folder.parent.glob("*/*.json")
    assert 4 <= len(json.loads(noted.read_text())["microseconds"]) <= search.TRIED[mode]


def test_bad_input(gpu: SimulatedGPU) -> None:
    with pytest.raises(TypeMismatch, match="no autotuning 'most'"):
        burn.compile(lambda x: x @ x, ["float32[4, 4]"], device="cuda", autotune="most")
    with pytest.raises(CompileError, match="made-up inputs"):  # every index is 0, and the axis is empty
        burn.compile(
            lambda i, x: ops.gather(x, i, axis=0) @ ops.gather(x, i, axis=0).T,
            ["int64[3]", "float16[0, 4]"],
            device="cuda",
            autotune="fast",
        )


def test_candidates() -> None:
    """The default shape is a candidate, and all candidates fit a GPU."""
    depth = (LoopVar("k", 768),)
    for m in (1, 17, 128, 4096, symbol("n")):
        for bits in (8, 16, 32):
            found = candidates.tiles(m, 768, depth, 1, bits)
            assert matmul_tile(m, 768, depth, 1, bits) in found
            assert len(set(found)) == len(found)
    for width in (16, 64, 128, 256):
        usual = attention_block("float32", True, 4096, 4096, width)
        assert all(b.rows <= 2 * usual.rows for b in candidates.blocks(usual, candidates.ATTENTION, True, width))
    assert candidates.blocks(Block(32, 32), candidates.ATTENTION, False, 64) == []
