"""Tokens a second of language models on the CPU, at batch 1: burn, ONNX Runtime and torch.compile, interleaved in one process.

    python benchmarks/decode.py --files FOLDER --write benchmarks/decode.md
    python benchmarks/decode.py --files FOLDER --models gpt2-small --threads 1        # a part of it, printed

A step takes a token after `--past` others. Both runtimes take the same ONNX file, which is made in FOLDER if it is missing
(rows/decoders.py, random weights), and must give the same scores. For torch, only the float32 shapes are timed; it writes keys
and values in place. A step reads every weight once, so the fraction of the memory bandwidth measures its quality. The cost of
reading a prompt is that of matmuls of many rows with a 4-bit weight, in the page's second table.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rows.decoders import DECODERS, feeds, write, write_matmul
from rows.shapes import Shape

import burn
from burn.bench.interleave import Plan, bind, interleave
from burn.bench.peers import PEERS, version
from burn.bench.report import difference, processor
from burn.bench.roofline import measure
from burn.bench.subject import Subject
from burn.errors import BurnError

SAME = 1e-3
"""How far scores may be apart, of the largest."""

ROUNDED = 0.1
"""The same where ONNX Runtime rounds activations to 8 bits: burn keeps them."""

LEVELS = {0: "onnxruntime", 4: "onnxruntime, level 4"}
"""Files of matmuls: at level 4 ONNX Runtime rounds activations to 8 bits."""

MATMUL_ROWS = (1, 8, 16, 64, 128, 512)

PLAN = Plan(runs=24, rounds=6)

MATMUL = DECODERS["llama-1b-int4"]
"""Whose hidden layer is multiplied."""

TURNS = 3
"""Of the memory's bandwidth, before and behind: what else runs on its machine takes a share of it."""


@dataclass(frozen=True)
class Figure:
    """Medians in seconds by engine, and the memory's bytes a second."""

    model: str
    shape: Shape
    times: dict[str, float]
    bandwidth: float

    def row(self, engines: list[str]) -> str:
        ours = self.times["burn"]
        rate = self.shape.weight_bytes / ours
        cells = [f"{1 / self.times[e]:.1f} ({self.times[e] / ours:.2f})" if e in self.times else "" for e in engines]
        read = f"{rate / 1e9:.1f} of {self.bandwidth / 1e9:.1f} GB/s ({rate / self.bandwidth:.0%})"
        weights = f"{self.shape.weight_bytes / 1e6:.0f} MB"
        return f"| {' | '.join([self.model, weights, f'{1 / ours:.1f}', read, *cells])} |"


def measured(name: str, folder: Path, threads: int, past: int) -> Figure:
    """Raises BurnError where scores differ."""
    shape, path = DECODERS[name], folder / f"{name}.onnx"
    if not path.exists():
        write(shape, path)
    given = feeds(shape, past)
    subject = Subject(name, path, given, {"past": past})
    runs: dict[str, Callable[[Any], Any]] = {"burn": burn.load(path, threads=threads).run}
    runs["onnxruntime"] = PEERS["onnxruntime"].load(subject, threads, None)
    scores = {engine: run(given)["logits"] for engine, run in runs.items()}
    most = ROUNDED if shape.level == 4 else SAME
    if not (apart := difference(*({"logits": s} for s in scores.values()))) <= most:
        raise BurnError(f"{name}: scores differ", [f"by {apart:.1e} of the largest"])
    calls: dict[str, Callable[[], Any]] = {engine: lambda run=run: run(given) for engine, run in runs.items()}
    if not shape.block:
        calls["torch.compile"] = _torch(shape, threads, past)
    rates = [_bandwidth()]
    timings = interleave(calls, PLAN).timings
    rates.append(_bandwidth())
    return Figure(name, shape, {engine: timing.median for engine, timing in timings.items()}, statistics.median(rates))


@dataclass(frozen=True)
class MatmulFigure:
    """Of so many rows: medians in seconds by engine."""

    rows: int
    times: dict[str, float]

    def row(self, engines: list[str], operations: float) -> str:
        ours = self.times["burn"]
        cells = [f"{1e3 * self.times[e]:.2f} ms ({self.times[e] / ours:.2f})" for e in engines]
        return f"| {' | '.join([str(self.rows), f'{1e3 * ours:.2f} ms', f'{operations / ours / 1e9:.0f}', *cells])} |"


def matmuls(shape: Shape, folder: Path, threads: int) -> list[MatmulFigure]:
    """Of the hidden layer's first weight. Raises BurnError where results differ."""
    runs: dict[str, Callable[[Any], Any]] = {}
    for level, engine in LEVELS.items():
        path = folder / f"product-level{level}.onnx"
        if not path.exists():
            write_matmul(replace(shape, level=level), path)
        if not runs:
            runs["burn"] = burn.load(path, threads=threads).run
        runs[engine] = PEERS["onnxruntime"].load(Subject("product", path, {}, {}), threads, None)
    rng, figures = np.random.default_rng(0), []
    for rows in MATMUL_ROWS:
        given = {"x": rng.standard_normal((rows, shape.width), np.float32)}
        results = {engine: run(given) for engine, run in runs.items()}
        for (engine, result), most in zip(results.items(), (0.0, SAME, ROUNDED), strict=True):
            if not (apart := difference(results["burn"], result)) <= most:
                raise BurnError(f"{engine}: matmuls differ", [f"by {apart:.1e} of the largest"])
        calls: dict[str, Callable[[], Any]] = {e: (lambda run=run, given=given: run(given)) for e, run in runs.items()}
        timings = interleave(calls, PLAN).timings
        figures.append(MatmulFigure(rows, {engine: timing.median for engine, timing in timings.items()}))
    return figures


def matmuls_table(shape: Shape, figures: list[MatmulFigure]) -> list[str]:
    engines, each = list(LEVELS.values()), 2.0 * shape.width * shape.hidden
    head = ["rows", "burn", "GFLOP/s", *engines]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f.row(engines, each * f.rows) for f in figures)]
    return [
        f"Matmuls of several rows, as in a prompt, with a 4-bit weight of {shape.width} by {shape.hidden}:",
        "\n".join(lines),
    ]


def _bandwidth() -> float:
    return statistics.median(measure().levels[-1].rate for _ in range(TURNS))


def _torch(shape: Shape, threads: int, past: int) -> Callable[[], Any]:
    """A step of the same shapes, compiled, which writes into keys and values that stay."""
    import torch
    from rows import decoding

    torch.set_num_threads(threads)
    with torch.no_grad():
        compiled = torch.compile(decoding.Kept(decoding.Decoder(replace(shape, room=2 * past)).eval()))
    token, position = torch.tensor([11]), torch.tensor([past])

    def run() -> Any:
        with torch.no_grad():
            return compiled(token, position)

    return run


def document(figures: list[Figure], threads: int, past: int, more: list[str]) -> str:
    engines = [e for e in ("onnxruntime", "torch.compile") if any(e in f.times for f in figures)]
    versions = ", ".join(f"{e} {version(PEERS[e])}" for e in engines)
    lines = [
        "# Tokens a second on the CPU, beside its peers",
        f"Written by `python benchmarks/decode.py` on {datetime.date.today()}: {processor()}, {threads} threads, {versions}. "
        f"Tokens a second at batch 1, after {past} tokens, random weights; medians of interleaved runs in one process. "
        "Weights are the bytes that a step reads, and next to them burn's share of the memory bandwidth. In brackets is a peer's "
        "time over burn's. In files "
        "of level 4 ONNX Runtime rounds activations to 8 bits, which burn does not.",
        f"| {' | '.join(['model', 'weights', 'burn', 'reads', *engines])} |\n|{' --- |' * (4 + len(engines))}\n"
        + "\n".join(f.row(engines) for f in figures),
        *more,
    ]
    return "\n\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=Path, required=True, help="a folder for the models")
    parser.add_argument("--models", nargs="*", choices=list(DECODERS), default=list(DECODERS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--past", type=int, default=128, help="tokens before")
    parser.add_argument("--write", type=Path, help="write the table there")
    args = parser.parse_args()
    threads = bind(args.threads)
    args.files.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    for name in args.models:
        figures.append(measured(name, args.files, threads, args.past))
        print(figures[-1].row(list(figures[-1].times)[1:]), flush=True)
    table = matmuls_table(MATMUL, matmuls(MATMUL, args.files, threads))
    print(*table, sep="\n")
    if args.write:
        args.write.write_text(document(figures, threads, args.past, table))


if __name__ == "__main__":
    main()
