"""Models whose names are drawn from packages' lists, on a CPU: burn beside ONNX Runtime, OpenVINO and torch.compile.

With `--training` their training steps, beside torch and torch.compile.

    python benchmarks/cpu_zoo.py list --output names.json                   # draws names: gpu_zoo.py's, and further kinds
    python benchmarks/cpu_zoo.py prepare --models names.json --folder zoo   # files, caches, peak memory; `run` does it if needed
    python benchmarks/cpu_zoo.py run --models names.json --folder zoo --results rows.jsonl --threads 2,1 --seconds 1500
    python benchmarks/cpu_zoo.py run ... --batch 8                          # other settings append to the same file
    python benchmarks/cpu_zoo.py run ... --int8 qdq --peer burn --peer onnxruntime      # or dynamic, or burn
    python benchmarks/cpu_zoo.py run ... --threads 1 --cpu                  # CPU seconds, on a machine that is not idle
    python benchmarks/cpu_zoo.py list --models names.json --training --output training.json      # ten of them to train
    python benchmarks/cpu_zoo.py run --training --models training.json --folder zoo --results rows.jsonl --batch 4
    python benchmarks/cpu_zoo.py write --results rows.jsonl --output benchmarks/cpu_zoo.md

Needs PyTorch, timm, torchvision, transformers and onnxscript; scikit-learn and skl2onnx for tables. Weights are random. All
engines get the ONNX file that torch exports, but for torch.compile, which gets the module (a table's model has none).

With `--int8 METHOD` they get a quantised file (rows/quantized.py). `qdq` is ONNX Runtime's static quantisation: uint8
activations, int8 weights by channel; of transformers of words only the matmuls. `dynamic` is its dynamic quantisation. `burn` is
the file of `burn quantize`. A row then has each engine's rounding. It is the root mean square of the difference to ONNX Runtime
without graph optimisations, over that of the results: then ONNX Runtime computes the dequantised numbers in float32.

A model is prepared once. One process writes its file. Then each engine has a process that loads it, runs it once and prints its
peak memory. Caches of compiled models stay in the folder; burn's memory is that of a second process, whose cache is filled.

A process of its own times the model. It is bound to as many CPUs as threads; figures are medians over alternating blocks
(burn/bench/interleave.py). Every process has a time limit, `--limit`. A row is written when its model is done. `run` leaves out
models that have a row for its setting, so it can be stopped and continued. The ratio is burn's time over the fastest peer's. The
worst kernel loses the most time to its roofline (burn/bench/roofline.py).

Training steps need no files; zoo/cpu_training.py says what a step is and how results are compared. Their ratio is the time of the
better of torch and torch.compile over burn's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from zoo.cpu_models import Entry, drawn_names, export, made
from zoo.cpu_tables import KEYS, PEERS, TRAINERS, ratio, write
from zoo.pages import Row, append, rows_of, short
from zoo.roofline import kernels_of

if TYPE_CHECKING:
    from burn.bench.subject import Subject

COMPILES = ("burn", "torch.compile")
"""Engines with a cache on disk, which a first process fills."""

ROUNDS, RUNS = 4, 12
SAMPLES = 3
"""Random inputs that ranges for int8 come from."""

METHODS = ("qdq", "dynamic", "burn")
"""Of quantisation."""

WORDS = ("encoder", "decoder", "encoder-decoder", "audio")
"""Lists of transformers with masks. `qdq` quantises only their matmuls."""


# ---- one model's files ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Files:
    """A model's files in the folder: the ONNX file, its inputs, and notes from its preparation."""

    model: Path

    @staticmethod
    def of(entry: Entry, args: argparse.Namespace) -> Files:
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in f"{entry['list']}-{entry['name']}")
        return Files(args.folder / f"{name}-b{args.batch}{_ending(args.int8)}.onnx")

    @property
    def inputs(self) -> Path:
        return self.model.with_suffix(".npz")

    @property
    def notes(self) -> Path:
        return self.model.with_suffix(".json")


def _ending(method: str | None) -> str:
    return f"-int8-{method}" if method else ""


def write_model(entry: Entry, args: argparse.Namespace) -> None:
    """Write the ONNX file and its inputs. The model with float32 weights may be there."""
    single = (
        args.file.with_name(args.file.name.removesuffix(f"{_ending(args.int8)}.onnx") + ".onnx")
        if args.int8
        else args.file
    )
    if not (args.int8 and single.exists() and single.with_suffix(".npz").exists()):
        export(entry, args.batch, single)
    if args.int8:
        from rows.quantized import MATMULS, burn_static, ort_dynamic, ort_static

        operators = MATMULS if entry["list"] in WORDS else ()
        makers = {"burn": burn_static, "qdq": ort_static("QDQ", "QUInt8", operators), "dynamic": ort_dynamic}
        with np.load(single.with_suffix(".npz")) as file:
            feeds = dict(file)
        np.savez(args.file.with_suffix(".npz"), allow_pickle=False, **feeds)
        makers[args.int8](single, args.file, [_drawn(feeds, seed) for seed in range(SAMPLES)])


def _drawn(feeds: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Inputs of the same distribution: the elements of each in another order."""
    rng = np.random.default_rng(seed)
    return {name: rng.permuted(array.reshape(-1)).reshape(array.shape) for name, array in feeds.items()}


def subject_of(entry: Entry, args: argparse.Namespace) -> Subject:
    from burn.bench.subject import Subject

    with np.load(args.file.with_suffix(".npz")) as file:
        feeds = dict(file)
    has_module = entry["list"] != "tabular" and not args.int8
    return Subject(entry["name"], args.file, feeds, {}, (lambda: made(entry, args.batch)[0]) if has_module else None)


# ---- in a process of its own ---------------------------------------------------------------------------------------------
def first_run(entry: Entry, args: argparse.Namespace) -> Row:
    """Load the one engine of `args.peer`, run it once, and return the peak memory of this process in bytes."""
    from burn.bench.cold import peak_memory
    from burn.bench.peers import PEERS as ENGINES

    subject, (name,) = subject_of(entry, args), args.peer
    if missing := ENGINES[name].lacks(subject):
        return {"absent": missing}
    ENGINES[name].load(subject, args.threads[0], None)(subject.feeds)
    return {"peak": peak_memory()}


def timed(entry: Entry, args: argparse.Namespace) -> list[Row]:
    """Time the engines on a prepared model in this process, with each number of threads, the largest first."""
    import burn
    from burn.bench.comparison import compare
    from burn.bench.interleave import Plan, bind

    subject, rows = subject_of(entry, args), []
    more = {"rounding": rounding(subject, args.peer)} if args.int8 else {}
    for threads in args.threads:
        bind(threads)
        plan = Plan(RUNS, ROUNDS, clock=time.process_time) if args.cpu else Plan(RUNS, ROUNDS)
        result = compare(subject, args.peer, "burn", threads, plan)
        row: dict[str, Any] = {"threads": threads, "seconds": {}, "failed": {}, "differs": 0.0, "others": result.others}
        for found in result.rows:
            if found.timing is not None:
                row["seconds"][found.peer] = found.timing.median
                row["differs"] = max(row["differs"], 0.0 if math.isnan(found.difference) else found.difference)
            else:
                row["failed"][found.peer] = found.error or found.absent
        has_roofline = "burn" in row["seconds"] and not (args.int8 or args.cpu)  # rates are those of float32
        if has_roofline:
            row |= kernels_of(burn.load(subject.path, threads=threads).profile(**subject.feeds, repeat=5))
        rows.append({**row, **more})
    return rows


def rounding(subject: Subject, peers: Sequence[str]) -> dict[str, float]:
    """By engine, the root mean square of the difference to the dequantised arithmetic, over that of the results."""
    import onnxruntime

    from burn.bench.peers import PEERS as ENGINES

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(subject.path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    exact = dict(zip(names, (np.asarray(array) for array in session.run(names, subject.feeds)), strict=True))
    found = {}
    for peer in peers:
        with contextlib.suppress(Exception):  # `compare` has the reason in its row
            results = ENGINES[peer].load(subject, 1, None)(subject.feeds)
            found[peer] = float(np.max([_relative(results[name], exact[name]) for name in names]))
    return found


def _relative(found: np.ndarray, exact: np.ndarray) -> float:
    wide = exact.astype(np.float64)
    scale = float(np.sqrt(np.mean(wide**2))) if exact.size else 0.0
    return float(np.sqrt(np.mean((found - wide) ** 2))) / scale if scale else 0.0


def trained(entry: Entry, args: argparse.Namespace) -> list[Row]:
    """Time training steps in this process with each number of threads, the largest first."""
    from zoo.cpu_training import one

    return [one(entry, args.batch, threads, args.peer, args.cpu) for threads in args.threads]


# ---- all of them ---------------------------------------------------------------------------------------------------------
def prepare(args: argparse.Namespace) -> None:
    """Prepare the models that are not prepared yet, `--jobs` at a time, until the time is over."""
    end = time.monotonic() + args.seconds
    entries = json.loads(args.models.read_text())[args.first :]

    def one(entry: Entry) -> None:
        if time.monotonic() < end and (Files.of(entry, args).notes.exists() or not args.refill):
            notes = prepared(entry, args, args.refill)
            print(f"{entry['list']} {entry['name']}: {notes.get('error') or notes['peaks']}"[:200], flush=True)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one, entries))


def prepared(entry: Entry, args: argparse.Namespace, refill: bool = False) -> dict[str, Any]:
    """Prepare a model if it is not prepared, and return its notes: `peaks` in bytes and `failed` by engine, or `error`. refill:
    burn's part again."""
    files = Files.of(entry, args)
    files.model.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(files.notes.read_text()) if files.notes.exists() else {}
    if "error" in known:
        return known
    notes: dict[str, Any] = {"peaks": {}, "failed": {}} | known
    if refill:
        for kept in (notes["peaks"], notes["failed"]):
            kept.pop("burn", None)
    if not (files.model.exists() and files.inputs.exists()):
        code, output = _child("export", entry, files, args, args.peer, args.threads)
        notes |= {} if code == 0 else {"error": short(output, 500)}
    if "error" not in notes:
        for peer in args.peer:
            if peer in notes["peaks"] or peer in notes["failed"]:
                continue
            counts = args.threads if peer == "torch.compile" else args.threads[:1]  # its code depends on their number
            for threads in [*counts, *(counts[:1] if peer in COMPILES else [])]:
                code, output = _child("first", entry, files, args, [peer], [threads])
                found = json.loads(output) if code == 0 else {"absent": short(output)}
                if "absent" in found:
                    notes["failed"][peer] = found["absent"]
                    break
                notes["peaks"][peer] = found["peak"]
    files.notes.write_text(json.dumps(notes))
    return notes


def run(args: argparse.Namespace) -> None:
    """Time the models that have no row for this setting, one after the other, until the time is over."""
    end = time.monotonic() + args.seconds
    if args.cpu and args.threads != [1]:
        raise SystemExit("--cpu counts the seconds of one thread: give --threads 1")
    setting: dict[str, Any] = {"batch": args.batch, "int8": args.int8 or False, "machine": machine()}
    setting |= {key: True for key in ("cpu", "training") if getattr(args, key)}
    done = {
        (row["list"], row["name"])
        for row in rows_of(args.results)
        if all(row.get(key) == setting.get(key) for key in KEYS if key != "threads") and row["threads"] in args.threads
    }
    entries = json.loads(args.models.read_text())[args.first :]
    left = [entry for entry in entries if (entry["list"], entry["name"]) not in done]
    for number, entry in enumerate(left):
        if time.monotonic() > end:
            print(f"{len(left) - number} models are left")
            return
        notes, files = {} if args.training else prepared(entry, args), Files.of(entry, args)
        found: list[Row] = [{"threads": threads, "error": notes.get("error")} for threads in args.threads]
        if "error" not in notes:
            peers = [peer for peer in args.peer if peer not in notes.get("failed", {})]
            code, output = _child("train" if args.training else "time", entry, files, args, peers, args.threads)
            found = json.loads(output) if code == 0 else [{**row, "error": short(output, 500)} for row in found]
        for row in found:
            more = {"peaks": notes.get("peaks", {}), "failed": notes.get("failed", {}) | row.get("failed", {})}
            append({**entry, **setting, **row, **more}, args.results)
            print(shown({**entry, **setting, **row, **more}), flush=True)


def _child(
    command: str, entry: Entry, files: Files, args: argparse.Namespace, peers: Sequence[str], threads: Sequence[int]
) -> tuple[int, str]:
    """The exit status of a process, and its last line of output, or what it said when it failed."""
    settings = ["--batch", str(args.batch), "--threads", ",".join(map(str, threads)), "--file", str(files.model)]
    settings += (
        ["--int8", args.int8] * bool(args.int8)
        + ["--cpu"] * args.cpu
        + [text for peer in peers for text in ("--peer", peer)]
    )
    caches = {"BURN_CACHE_DIR": "burn", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    folders = {name: str(args.folder.resolve() / "caches" / folder) for name, folder in caches.items()}
    with subprocess.Popen(
        [sys.executable, __file__, command, json.dumps(entry), *settings],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | folders, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, errors = process.communicate(timeout=args.limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)  # compilers that torch started are in its group
            return 1, f"more than {args.limit} s to {command}"
    if process.returncode:
        return process.returncode, errors or f"signal {-process.returncode}"
    return 0, output.strip().splitlines()[-1] if output.strip() else ""  # engines print other lines before


def trained_names(args: argparse.Namespace) -> list[Entry]:
    from zoo.cpu_training import drawn

    if args.models is None:
        raise SystemExit("--training draws from --models")
    return drawn(json.loads(args.models.read_text()))


def machine() -> str:
    from burn.codegen.cpu.target import host_target
    from burn.runtime.host import features, processor

    return f"{processor()}, {host_target(features()).name}"


def shown(row: Row) -> str:
    times = " ".join(f"{name} {1e3 * seconds:.3f}" for name, seconds in row.get("seconds", {}).items())
    failed = "; ".join(f"{name}: {short(text, 100)}" for name, text in row.get("failed", {}).items())
    found = ratio(row)
    text = "" if found is None else f"ratio {found:.2f}"
    text += f" differs {row['differs']:.0e}" if text and "differs" in row else ""
    parts = (
        f"{row['list']} {row['name']}, {row['threads']} threads:",
        times,
        text,
        failed,
        short("; ".join(row.get("wrong", []))),
        short(row.get("error") or ""),
    )
    return " ".join(filter(None, parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    listed = commands.add_parser("list", help="draws the names")
    listed.add_argument("--output", type=Path, required=True)
    listed.add_argument("--training", action="store_true", help="of the names in --models, those to train")
    listed.add_argument("--models", type=Path, help="for --training")
    written = commands.add_parser("write", help="writes the page")
    written.add_argument("--results", type=Path, required=True)
    written.add_argument("--output", type=Path, required=True)
    parts = {
        "prepare": "writes models' files and fills caches",
        "run": "times the models",
        "export": "writes the files of one model",
        "first": "runs one engine once on a prepared model",
        "time": "times a prepared model",
        "train": "times training steps of a model",
    }
    for name, about in parts.items():
        part = commands.add_parser(name, help=about)
        part.add_argument("--batch", type=int, default=1)
        part.add_argument("--threads", type=numbers, default=[2], help="2 or 2,1")
        part.add_argument("--int8", choices=METHODS, help="a quantised model")
        part.add_argument("--cpu", action="store_true", help="count CPU seconds; of one thread")
        part.add_argument("--peer", action="append", choices={*PEERS, *TRAINERS}, help="repeatable; all by default")
        if name in ("prepare", "run"):
            part.add_argument("--folder", type=Path, required=True, help="keeps prepared models")
            part.add_argument("--limit", type=float, default=280, help="seconds of each process")
            part.add_argument("--models", type=Path, required=True)
            part.add_argument("--first", type=int, default=0, help="the number of models to skip")
            part.add_argument("--seconds", type=float, default=math.inf, help="after which no model is started")
            if name == "prepare":
                part.add_argument(
                    "--refill", action="store_true", help="burn's cache of prepared models, after a change of it"
                )
            if name == "run":
                part.add_argument("--training", action="store_true", help="training steps")
                part.add_argument("--results", type=Path, required=True)
            else:
                part.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="models at once")
            continue
        part.add_argument("entry", type=json.loads)
        part.add_argument("--file", type=Path, required=True)
    args = parser.parse_args()
    if hasattr(args, "peer"):
        training = args.command == "train" or getattr(args, "training", False)
        args.peer = args.peer or list(TRAINERS if training else PEERS)
    match args.command:
        case "list":
            args.output.write_text(json.dumps(trained_names(args) if args.training else drawn_names(), indent=1) + "\n")
        case "prepare":
            prepare(args)
        case "run":
            run(args)
        case "export":
            write_model(args.entry, args)
        case "first":
            print(json.dumps(first_run(args.entry, args)), flush=True)
        case "time":
            print(json.dumps(timed(args.entry, args)), flush=True)
        case "train":
            print(json.dumps(trained(args.entry, args)), flush=True)
        case "write":
            write(args.results, args.output)


def numbers(text: str) -> list[int]:
    """Numbers of threads, the largest first: a process can be bound to fewer CPUs only."""
    return sorted(map(int, text.split(",")), reverse=True)


if __name__ == "__main__":
    main()
