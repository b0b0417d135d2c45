"""Quantised models on the CPU, burn against ONNX Runtime: times, and agreement with the float model's classes.

    python benchmarks/int8.py --files FOLDER --figures FIGURES.json                              # all, added to the figures
    python benchmarks/int8.py --files FOLDER --figures FIGURES.json --models bert_base --threads 1 --samples 0   # times alone
    python benchmarks/int8.py --files FOLDER --figures FIGURES.json --write benchmarks/int8.md   # measures nothing

`burn quantize` and ONNX Runtime's own tools (after its preprocessing) quantise each model statically, and transformers also
dynamically, with the same calibration samples. Both engines run every file, alternating in one process. Missing files are made in
FOLDER; remove them to rebuild them. Weights are random except for the last layer (see rows/decided.py).

Accuracy is of `--samples` fresh inputs, unseen by the last layer and the calibration. It has the fraction whose largest score is
that of the float model's class, the fraction whose class is right, and the signal-to-noise ratio of the scores. A new measurement
replaces the old one. Figures of other models, files, targets and numbers of threads stay, and `--samples 0` leaves
accuracies unchanged.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pages import Tables, heading, page_of
from rows.decided import DECIDED, Decided, Sample, make
from rows.quantized import MATMULS, Maker, burn_dynamic, burn_static, ort_dynamic, ort_static

import burn
from burn.bench.interleave import Plan, bind, interleave
from burn.bench.peers import PEERS, Run, version
from burn.bench.report import processor
from burn.bench.subject import Subject
from burn.codegen.cpu.target import TARGETS, host_target
from burn.quantization import save
from burn.runtime.host import features

ENGINES = ("burn", "onnxruntime")

CALIBRATION, EVALUATION = 2, 3
"""Seeds of inputs."""

CALIBRATED = 64
"""Samples that ranges come from."""

OTHERS = 0.05
"""Of the machine: a figure taken while other processes took more is marked."""

MAKERS: dict[str, dict[str, Maker]] = {
    "resnet50": {
        "burn static": burn_static,
        "onnxruntime QDQ int8": ort_static("QDQ", "QInt8"),
        "onnxruntime QDQ uint8": ort_static("QDQ", "QUInt8"),
        "onnxruntime QOperator uint8": ort_static("QOperator", "QUInt8"),
    },
    "bert_base": {
        "burn static": burn_static,
        "burn dynamic": burn_dynamic,
        "onnxruntime QDQ int8": ort_static("QDQ", "QInt8", MATMULS),
        "onnxruntime QDQ uint8": ort_static("QDQ", "QUInt8", MATMULS),
        "onnxruntime dynamic": ort_dynamic,
    },
}
"""By model and name, what makes a quantised file: of the float model's file, with samples."""


@dataclass(frozen=True)
class Time:
    """One quantised file on one target: medians in seconds, `floats` that of burn with the float model; ratio: burn's time over
    ONNX Runtime's, round by round."""

    model: str
    maker: str
    target: str
    threads: int
    version: str
    burn: float
    theirs: float
    ratio: float
    floats: float
    disturbed: bool
    day: str
    machine: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        return self.model, self.maker, self.target, self.threads


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of one quantised file, by engine.

    `same`, `right`: fractions of samples in which the float model's class, or the right class, is first ("float": by the float
    model's scores). `noise`: the float scores' power over that of the difference, in dB."""

    model: str
    maker: str
    target: str
    samples: int
    same: dict[str, float]
    right: dict[str, float]
    noise: dict[str, float]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.model, self.maker, self.target


def file_of(name: str, it: Decided, folder: Path) -> Path:
    """The float model."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        save(make(it), path)
    return path


def quantised(name: str, maker: str, it: Decided, folder: Path) -> Path:
    path = folder / f"{name}.{maker.replace(' ', '-')}.onnx"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:  # whole or not at all
            made = Path(scratch) / "model.onnx"
            MAKERS[name][maker](
                file_of(name, it, folder), made, [sample for sample, _ in it.inputs(CALIBRATION, CALIBRATED)]
            )
            made.replace(path)
    return path


def runs_of(path: Path, feeds: Sample, threads: int, target: str) -> dict[str, Run]:
    return {
        "burn": burn.load(path, threads=threads, target=target).run,
        "onnxruntime": PEERS["onnxruntime"].load(Subject(path.name, path, feeds, {}), threads, None),
    }


def scores(run: Run, inputs: Iterable[tuple[Sample, int]]) -> np.ndarray:
    return np.concatenate([next(iter(run(sample).values())) for sample, _ in inputs]).astype(np.float64)


def accuracy(
    model: str, maker: str, target: str, floats: np.ndarray, labels: np.ndarray, found: dict[str, np.ndarray]
) -> Accuracy:
    """floats: the float model's scores, one row a sample."""
    first = {engine: rows.argmax(1) for engine, rows in {**found, "float": floats}.items()}
    power = (floats**2).sum()
    return Accuracy(
        model,
        maker,
        target,
        len(labels),
        {engine: float((first[engine] == first["float"]).mean()) for engine in found},
        {engine: float((row == labels).mean()) for engine, row in first.items()},
        {
            engine: float(10 * np.log10(power / max(((rows - floats) ** 2).sum(), 1e-300)))
            for engine, rows in found.items()
        },
    )


def tables(times: Iterable[Time], accuracies: Iterable[Accuracy]) -> Tables:
    """By target and number of threads."""
    known = {found.key: found for found in accuracies}
    groups: dict[tuple[str, int], list[Time]] = {}
    for time in times:
        groups.setdefault((time.target, time.threads), []).append(time)
    return {
        (target, threads): "\n\n".join([heading(target, threads), _origin(found, known), _table(found, known)])
        for (target, threads), found in groups.items()
    }


def _origin(found: Sequence[Time], known: dict[tuple[str, str, str], Accuracy]) -> str:
    days = sorted({time.day for time in found})
    about = [", ".join(sorted({time.machine for time in found})), " to ".join(dict.fromkeys([days[0], days[-1]]))]
    about.append(", ".join(sorted({f"onnxruntime {time.version}" for time in found})))
    right = {
        time.model: f"{known[time.key[:3]].right['float']:.1%} of {known[time.key[:3]].samples} in float32 ({time.model})"
        for time in found
        if time.key[:3] in known
    }
    if right:
        about.append(f"right are {', '.join(right.values())}")
    return f"{'; '.join(about)}."


def _table(found: Sequence[Time], known: dict[tuple[str, str, str], Accuracy]) -> str:
    heads = ["model", "quantised by", "burn", "onnxruntime", "ratio", "burn in float32"]
    heads += [f"{what}, {engine}" for engine in ENGINES for what in ("same top 1", "right", "signal / noise")]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    order = [(model, maker) for model, makers in MAKERS.items() for maker in makers]
    for time in sorted(found, key=lambda t: order.index((t.model, t.maker)) if (t.model, t.maker) in order else 99):
        cells = [time.model + "*" * time.disturbed, time.maker]
        cells += [
            f"{1e3 * time.burn:.2f} ms",
            f"{1e3 * time.theirs:.2f} ms",
            f"{time.ratio:.2f}",
            f"{1e3 * time.floats:.2f} ms",
        ]
        was = known.get(time.key[:3])
        for engine in ENGINES:
            cells += (
                ["", "", ""]
                if was is None
                else [f"{was.same[engine]:.1%}", f"{was.right[engine]:.1%}", f"{was.noise[engine]:.1f} dB"]
            )
        lines.append(f"| {' | '.join(cells)} |")
    if any(time.disturbed for time in found):
        lines.append("\n\\* Other processes, or an engine's waiting threads, took part of the machine meanwhile.")
    return "\n".join(lines)


INTRODUCTION = (
    "# Quantised models on the CPU, burn beside ONNX Runtime",
    "Written by `python benchmarks/int8.py`: ResNet-50 (one picture of 224 by 224) and BERT-base (one sentence of 128 "
    "tokens), quantised to 8 bits by `burn quantize` and by ONNX Runtime's tools, each file run by both engines. For "
    "BERT, ONNX Runtime's static tool quantises only matmuls: by default it also quantises attention's masked scores "
    "(-3.4e38), and the file gives useless results. Medians of interleaved runs in one process; the "
    "ratio is burn's time over ONNX Runtime's: below 1 burn is ahead.",
    "The weights are random, with two exceptions (`benchmarks/rows/decided.py`). Batch norms have the statistics of the "
    "drawn inputs. The last layer is fitted to distinguish 100 classes of synthetic pictures or sentences. So the float "
    "model's scores are clear, and the fraction of fresh inputs with the same top 1 is meaningful. It does not predict "
    "the accuracy of trained networks on real data.",
)
"""The page's heading and first paragraphs."""


def document(times: Sequence[Time], accuracies: Sequence[Accuracy], before: str = "") -> str:
    """The page, with the tables of the page before that there are no figures for."""
    return page_of(INTRODUCTION, tables(times, accuracies), before)


def read(path: Path) -> tuple[list[Time], list[Accuracy]]:
    kept: dict[str, list[Any]] = json.loads(path.read_text()) if path.exists() else {"times": [], "accuracies": []}
    return [Time(**entry) for entry in kept["times"]], [Accuracy(**entry) for entry in kept["accuracies"]]


def keep(path: Path, times: Iterable[Time], accuracies: Iterable[Accuracy]) -> None:
    kept = {"times": [asdict(time) for time in times], "accuracies": [asdict(found) for found in accuracies]}
    path.write_text(json.dumps(kept, indent=1))


def timed(
    model: str, maker: str, path: Path, floats: Path, feeds: Sample, threads: int, target: str, plan: Plan
) -> Time:
    runs = runs_of(path, feeds, threads, target) | {"float": burn.load(floats, threads=threads, target=target).run}
    taken = interleave({name: (lambda run=run: run(feeds)) for name, run in runs.items()}, plan)
    ours, theirs = taken.timings["burn"], taken.timings["onnxruntime"]
    return Time(
        model,
        maker,
        target,
        threads,
        version(PEERS["onnxruntime"]),
        ours.median,
        theirs.median,
        ours.ratio(theirs),
        taken.timings["float"].median,
        taken.restless or (taken.others or 0.0) > OTHERS,
        str(datetime.date.today()),
        f"{processor()} ({platform.machine()}, {host_target(features()).name})",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=Path, required=True, help="a folder for the models")
    parser.add_argument(
        "--figures", type=Path, required=True, help="a JSON file, where figures are kept from run to run"
    )
    parser.add_argument("--write", type=Path, help="put the figures' tables there, and measure nothing")
    parser.add_argument("--models", nargs="*", choices=list(MAKERS), default=list(MAKERS))
    parser.add_argument("--makers", default="", help="only files whose name has this in it: 'burn', 'dynamic'")
    parser.add_argument("--threads", default="2,1", help="numbers of threads; with 0 nothing is timed")
    parser.add_argument("--target", choices=list(TARGETS), help="the CPU that burn compiles for; this one by default")
    parser.add_argument("--samples", type=int, default=500, help="to judge accuracy by")
    parser.add_argument("--runs", type=int, default=24, help="that are counted, of each engine")
    args = parser.parse_args()
    before, known = read(args.figures)
    times, accuracies = {time.key: time for time in before}, {found.key: found for found in known}
    if args.write:
        page = args.write.read_text() if args.write.exists() else ""
        args.write.write_text(document(list(times.values()), list(accuracies.values()), page) + "\n")
        return
    args.files.mkdir(parents=True, exist_ok=True)
    target = args.target or host_target(features()).name
    counts = sorted(map(int, args.threads.split(",")), reverse=True)  # a process can be bound to fewer CPUs only
    files = {
        (name, maker): quantised(name, maker, DECIDED[name], args.files)
        for name in args.models
        for maker in MAKERS[name]
        if args.makers in maker
    }
    for name in args.models if args.samples else ():
        inputs = list(DECIDED[name].inputs(EVALUATION, args.samples))
        labels = np.array([label for _, label in inputs])
        floats = scores(burn.load(file_of(name, DECIDED[name], args.files), target=target).run, inputs)
        for maker in (maker for model, maker in files if model == name):
            runs = runs_of(files[name, maker], inputs[0][0], max(counts) or 1, target)
            got = {engine: scores(run, inputs) for engine, run in runs.items()}
            found = accuracy(name, maker, target, floats, labels, got)
            accuracies[found.key] = found
            keep(args.figures, times.values(), accuracies.values())
            said = [f"{e} {found.same[e]:.1%}, {found.right[e]:.1%} right, {found.noise[e]:.1f} dB" for e in ENGINES]
            print(f"{name}, {maker}: {'; '.join(said)}; {found.right['float']:.1%} right in floats", flush=True)
    for threads in (count for count in counts if count):
        bind(threads)
        for (name, maker), path in files.items():
            ((feeds, _),) = DECIDED[name].inputs(EVALUATION, 1)
            floats_path = file_of(name, DECIDED[name], args.files)
            time = timed(name, maker, path, floats_path, feeds, threads, target, Plan(runs=args.runs))
            times[time.key] = time
            keep(args.figures, times.values(), accuracies.values())
            theirs = f"onnxruntime {1e3 * time.theirs:.2f} ms ({time.ratio:.2f})"
            said = f"{1e3 * time.burn:.2f} ms, {theirs}, in floats {1e3 * time.floats:.2f} ms{', disturbed' * time.disturbed}"
            print(f"{name}, {maker}, {threads} threads: {said}", flush=True)


if __name__ == "__main__":
    main()
