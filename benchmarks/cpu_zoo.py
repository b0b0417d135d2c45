"""Models whose names are drawn from packages' lists, on a CPU: burn beside ONNX Runtime, OpenVINO and torch.compile.

    python benchmarks/cpu_zoo.py list --output names.json               # draws the names: those of gpu_zoo.py, and further kinds
    python benchmarks/cpu_zoo.py run --models names.json --results rows.jsonl --threads 2 --batch 1 --seconds 500
    python benchmarks/cpu_zoo.py write --results rows.jsonl --output benchmarks/cpu_zoo.md

Needs PyTorch, timm, torchvision, transformers and onnxscript; scikit-learn and skl2onnx for tables. Weights are random. All
engines get the ONNX file that torch exports, but for torch.compile, which gets the module (a table's model has none). Models are
exported and compiled `--jobs` at a time, then timed alone, each in a process of its own that is bound to as many CPUs as
threads. Figures are medians over alternating blocks (burn/bench/interleave.py). The ratio is burn's time over the fastest peer's.

The worst kernel loses the most time to its roofline (burn/bench/roofline.py).
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

    from burn.bench.subject import Subject

SEED = 34
PEERS = ("burn", "onnxruntime", "openvino", "torch.compile")
TIMEOUT = 280  # seconds, of preparing a model or of timing it
ROUNDS, RUNS = 5, 20
FEATURES, ROWS = 20, 500
"""Of the tables that tabular models learn."""

Entry = dict[str, Any]


# ---- names ---------------------------------------------------------------------------------------------------------------
def drawn_names() -> list[Entry]:
    """Those of the GPU zoo, and kinds that it does not have."""
    from gpu_zoo import drawn_names as of_gpus

    rng = random.Random(SEED)
    return [*of_gpus(), *_segmentation(), *_audio(rng), *_tabular(rng), *_recurrent(rng), *_dilated(rng), *_super(rng)]


def _segmentation() -> list[Entry]:
    import torchvision

    names = torchvision.models.list_models(module=torchvision.models.segmentation)
    return [{"list": "segmentation", "name": name} for name in names if "101" not in name]


def _audio(rng: random.Random) -> list[Entry]:
    from transformers.models.auto import modeling_auto

    names = sorted(modeling_auto.MODEL_FOR_CTC_MAPPING_NAMES)
    return [{"list": "audio", "name": name} for name in rng.sample(names, min(4, len(names)))]


def _tabular(rng: random.Random) -> list[Entry]:
    from sklearn.utils import all_estimators

    named = ("Forest", "Boosting", "Trees", "SVC", "MLP", "LogisticRegression", "Neighbors")
    names = [name for name, _ in all_estimators("classifier") if any(part in name for part in named)]
    return [{"list": "tabular", "name": name} for name in rng.sample(names, min(6, len(names)))]


def _recurrent(rng: random.Random) -> list[Entry]:
    return [
        {"list": "recurrent", "name": f"{kind}-{width}x{layers}{'-both' * both}", "kind": kind, "width": width,
         "layers": layers, "both": both, "steps": rng.choice((25, 100, 250))}
        for kind in ("LSTM", "GRU", "RNN")
        for width, layers, both in [(rng.choice((48, 64, 128, 200, 320)), rng.randint(1, 3), rng.random() < 0.5)]
    ]  # fmt: skip


def _dilated(rng: random.Random) -> list[Entry]:
    """Stacks of 1-D convolutions whose dilation doubles, as in WaveNet and temporal convolutional networks."""
    found: dict[str, Entry] = {}
    while len(found) < 3:
        width, taps, layers = rng.choice((32, 64, 96, 128)), rng.choice((2, 3, 5)), rng.randint(5, 9)
        length = rng.choice((200, 1000, 4000))
        name = f"tcn-{width}-k{taps}-{layers}-t{length}"
        sizes = {"width": width, "taps": taps, "layers": layers, "steps": length}
        found[name] = {"list": "temporal", "name": name, **sizes}
    return list(found.values())


def _super(rng: random.Random) -> list[Entry]:
    """Residual blocks at the low resolution, then a pixel shuffle, as in EDSR."""
    found = []
    for _ in range(2):
        width, blocks, scale = rng.choice((16, 32, 48, 64)), rng.randint(2, 8), rng.choice((2, 3, 4))
        name = f"edsr-{width}x{blocks}-x{scale}"
        found.append({"list": "super-resolution", "name": name, "width": width, "blocks": blocks, "scale": scale})
    return found


# ---- models --------------------------------------------------------------------------------------------------------------
def made(entry: Entry, batch: int) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A torch module with random weights, and its inputs."""
    import torch

    torch.manual_seed(0)
    match entry["list"]:
        case "segmentation":
            import torchvision
            from gpu_zoo import Tensors

            model = torchvision.models.get_model(entry["name"], weights=None, weights_backbone=None)
            return Tensors(model).eval(), (torch.randn(batch, 3, 256, 256),)
        case "audio":
            from gpu_zoo import Tensors
            from transformers import AutoConfig, AutoModel

            model = AutoModel.from_config(AutoConfig.for_model(entry["name"]))
            return Tensors(model).eval(), (torch.randn(batch, 16000),)
        case "recurrent":
            from gpu_zoo import Tensors

            make = getattr(torch.nn, entry["kind"])
            cells = make(64, entry["width"], entry["layers"], batch_first=True, bidirectional=entry["both"])
            return Tensors(cells).eval(), (torch.randn(batch, entry["steps"], 64),)
        case "temporal":
            return _temporal(entry).eval(), (torch.randn(batch, 16, entry["steps"]),)
        case "super-resolution":
            return _upscaling(entry).eval(), (torch.randn(batch, 3, 96, 96),)
        case _:
            from gpu_zoo import made as of_gpus

            module, inputs = of_gpus(entry, batch, torch.float32)
            return module.eval(), inputs


def _temporal(entry: Entry) -> torch.nn.Module:
    from torch import nn

    width, taps = entry["width"], entry["taps"]
    layers: list[nn.Module] = [nn.Conv1d(16, width, 1)]
    for number in range(entry["layers"]):
        dilation = 2**number
        left = (taps - 1) * dilation
        layers += [nn.ConstantPad1d((left, 0), 0.0), nn.Conv1d(width, width, taps, dilation=dilation), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv1d(width, 16, 1))


def _upscaling(entry: Entry) -> torch.nn.Module:
    from torch import nn

    width, scale = entry["width"], entry["scale"]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            convolve = partial(nn.Conv2d, width, width, 3, padding=1)
            self.body = nn.Sequential(convolve(), nn.ReLU(), convolve())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.body(x)

    blocks = [Block() for _ in range(entry["blocks"])]
    head, tail = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3 * scale**2, 3, padding=1)
    return nn.Sequential(head, *blocks, tail, nn.PixelShuffle(scale))


def export(entry: Entry, batch: int, path: Path) -> None:
    """Write the model's ONNX file, and its inputs beside it."""
    if entry["list"] == "tabular":
        _export_table(entry, batch, path)
        return
    import torch

    module, inputs = made(entry, batch)
    with torch.no_grad():
        torch.onnx.export(module, inputs, path, dynamo=True, external_data=False)
    _save_inputs(path, [tensor.numpy() for tensor in inputs])


def _export_table(entry: Entry, batch: int, path: Path) -> None:
    from skl2onnx import to_onnx
    from sklearn.utils import all_estimators

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, FEATURES)).astype(np.float32)
    classes = (rows[:, :4].sum(1) > 0).astype(np.int64) + (rows[:, 5] > 1)
    estimator = dict(all_estimators("classifier"))[entry["name"]]().fit(rows, classes)
    model: Any = to_onnx(estimator, rows[:1], options={id(estimator): {"zipmap": False}})
    path.write_bytes(model.SerializeToString())
    _save_inputs(path, [rng.standard_normal((batch, FEATURES)).astype(np.float32)])


def _save_inputs(path: Path, arrays: Sequence[np.ndarray]) -> None:
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in weights]
    named: dict[str, Any] = dict(zip(names, arrays, strict=True))
    np.savez(path.with_suffix(".npz"), **named)


def subject_of(entry: Entry, batch: int, path: Path) -> Subject:
    from burn.bench.subject import Subject

    with np.load(path.with_suffix(".npz")) as file:
        feeds = dict(file)
    module = None if entry["list"] == "tabular" else lambda: made(entry, batch)[0]
    return Subject(entry["name"], path, feeds, {}, module)


# ---- one model -----------------------------------------------------------------------------------------------------------
def prepare(entry: Entry, args: argparse.Namespace) -> None:
    """Export a model, and fill the engines' caches by running it once."""
    from burn.bench.peers import PEERS as ENGINES

    export(entry, args.batch, args.file)
    subject = subject_of(entry, args.batch, args.file)
    for name in args.peer:
        if name in ("burn", "torch.compile") and not ENGINES[name].lacks(subject):
            try:
                ENGINES[name].load(subject, args.threads, None)(subject.feeds)
            except Exception as error:  # reported when it is timed
                print(f"{name}: {error}", file=sys.stderr)


def timed(entry: Entry, args: argparse.Namespace) -> Entry:
    """Time the engines on a prepared model in this process."""
    from burn.bench.comparison import compare
    from burn.bench.interleave import Plan, bind

    bind(args.threads)
    subject = subject_of(entry, args.batch, args.file)
    result = compare(subject, args.peer, "burn", args.threads, Plan(RUNS, ROUNDS))
    row: Entry = {"seconds": {}, "failed": {}, "differs": 0.0, "others": result.others}
    for found in result.rows:
        if found.timing is not None:
            row["seconds"][found.peer] = found.timing.median
            row["differs"] = max(row["differs"], 0.0 if math.isnan(found.difference) else found.difference)
        else:
            row["failed"][found.peer] = found.error or found.absent
    return row | (worst_kernel(subject, args.threads) if "burn" in row["seconds"] else {})


def worst_kernel(subject: Subject, threads: int) -> Entry:
    """The share of the roofline, and the kernels that lose the most time to theirs."""
    import burn
    from burn.bench.roofline import measure

    profile = burn.load(subject.path, threads=threads).profile(**subject.feeds, repeat=5)
    roof = measure()
    rows = [(row, roof.seconds(row)) for row in profile.rows if row.seconds]
    total = sum(row.seconds for row, _ in rows)
    kernels = [
        {"kernel": row.kernel.name, "of_time": row.seconds / total, "of_roofline": least / row.seconds,
         "lost": (row.seconds - least) / total, "nodes": list(row.kernel.sources)[:3]}
        for row, least in rows if least is not None
    ]  # fmt: skip
    kernels.sort(key=lambda kernel: -kernel["lost"])
    return {"roofline": sum(least or 0.0 for _, least in rows) / total, "kernels": kernels[:8]}


# ---- all of them ---------------------------------------------------------------------------------------------------------
def run(args: argparse.Namespace) -> None:
    """Prepare models in waves, time each, and append rows to the results until the time is over."""
    entries = json.loads(args.models.read_text())[args.first :]
    end = time.monotonic() + args.seconds
    with args.results.open("a") as file, tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(entries), args.jobs):
            if time.monotonic() > end:
                print(f"{len(entries) - start} models are left: --first {args.first + start}")
                return
            wave = entries[start : start + args.jobs]
            paths = [Path(folder, f"{start + number}.onnx") for number in range(len(wave))]
            with ThreadPoolExecutor(args.jobs) as pool:
                ready = list(pool.map(lambda entry, path: _child("prepare", entry, path, args), wave, paths))
            for entry, path, (code, output) in zip(wave, paths, ready, strict=True):
                row = {**entry, "batch": args.batch, "threads": args.threads, "machine": machine()}
                if code == 0 and time.monotonic() < end:
                    code, output = _child("time", entry, path, args)
                lines = [line for line in output.splitlines() if line.startswith("{")]  # engines print other lines
                row |= json.loads(lines[-1]) if code == 0 else {"error": output[-500:]}
                print(shown(row), flush=True)
                file.write(json.dumps(row) + "\n")
                file.flush()
                for made_file in path.parent.glob(f"{path.stem}.*"):
                    made_file.unlink()


def _child(command: str, entry: Entry, path: Path, args: argparse.Namespace) -> tuple[int, str]:
    """The exit status of a process, and its output, or what it said when it failed."""
    settings = ["--batch", str(args.batch), "--threads", str(args.threads), "--file", str(path)]
    settings += [text for peer in args.peer for text in ("--peer", peer)]
    try:
        done = subprocess.run(
            [sys.executable, __file__, command, json.dumps(entry), *settings],
            capture_output=True, text=True, timeout=TIMEOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 1, f"more than {TIMEOUT} s to {command}"
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


def machine() -> str:
    from burn.codegen.cpu.target import host_target
    from burn.runtime.host import features, processor

    return f"{processor()}, {host_target(features()).name}"


def shown(row: Mapping[str, Any]) -> str:
    times = " ".join(f"{name} {1e3 * seconds:.3f}" for name, seconds in row.get("seconds", {}).items())
    failed = "; ".join(f"{name}: {text}"[:120] for name, text in row.get("failed", {}).items())
    found = ratio(row)
    text = "" if found is None else f"ratio {found:.2f} differs {row['differs']:.0e}"
    return f"{row['list']} {row['name']}: {times} {text} {failed} {row.get('error', '')[-200:]}"


# ---- tables --------------------------------------------------------------------------------------------------------------
def ratio(row: Mapping[str, Any]) -> float | None:
    """burn's time over the fastest peer's."""
    seconds = dict(row.get("seconds", {}))
    own = seconds.pop("burn", None)
    return own / min(seconds.values()) if own and seconds else None


def mean(numbers: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers)) if numbers else math.nan


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = ["model", *(f"{peer} ms" for peer in PEERS), "ratio", "of the roofline", "worst kernel"]
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"
    for row in sorted(rows, key=lambda row: -(ratio(row) or 0)):
        found = ratio(row)
        if found is None:
            continue
        cells = [f"{row['list']} {row['name']}"]
        cells += [f"{1e3 * row['seconds'][peer]:.3f}" if peer in row["seconds"] else "" for peer in PEERS]
        cells += [f"{found:.2f}", f"{row['roofline']:.0%}" if "roofline" in row else ""]
        worst = next(iter(row.get("kernels", [])), None)
        cells.append(
            "" if worst is None else
            f"{worst['kernel']}: {worst['of_time']:.0%} of the time, {worst['of_roofline']:.0%} of its roofline"
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def write(args: argparse.Namespace) -> None:
    rows = [json.loads(line) for line in args.results.read_text().splitlines()]
    lines = [
        "# Models drawn from packages' lists, on a CPU",
        f"Written by `python benchmarks/cpu_zoo.py write` on {datetime.date.today()}. Random weights, float32. Ratio: burn's "
        "time over the fastest peer's. The script says how names are drawn and how engines are timed.",
    ]
    keys = ("machine", "threads", "batch")
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in rows):
        latest = {(row["list"], row["name"]): row for row in rows if tuple(row[name] for name in keys) == key}
        mine = list(latest.values())
        ratios = [found for row in mine if (found := ratio(row)) is not None]
        on, threads, batch = key
        lines.append(f"## {on}: {threads} thread{'s' * (threads > 1)}, batch {batch}")
        above = sum(found > 1 for found in ratios)
        lines.append(f"{len(ratios)} models: geometric mean {mean(ratios):.2f}, {above} above 1.")
        lines.append("\n".join(table(mine)))
        absent = [f"- {row['list']} {row['name']}: {reason(row)}" for row in mine if ratio(row) is None]
        if absent:
            lines.append("Without a ratio:\n\n" + "\n".join(absent))
    args.output.write_text("\n\n".join(lines) + "\n")


def reason(row: Mapping[str, Any]) -> str:
    text = row.get("error") or "; ".join(f"{name}: {why}" for name, why in row.get("failed", {}).items()) or "no peer"
    return " ".join(text.split())[-200:]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    listed = commands.add_parser("list", help="draws the names")
    listed.add_argument("--output", type=Path, required=True)
    parts = {"run": "times the models", "prepare": "exports one and fills caches", "time": "times a prepared one"}
    for name, about in parts.items():
        part = commands.add_parser(name, help=about)
        part.add_argument("--batch", type=int, default=1)
        part.add_argument("--threads", type=int, default=2)
        part.add_argument("--peer", action="append", choices=PEERS, help="repeatable; all by default")
        if name != "run":
            part.add_argument("entry", type=json.loads)
            part.add_argument("--file", type=Path, required=True)
            continue
        part.add_argument("--models", type=Path, required=True)
        part.add_argument("--results", type=Path, required=True)
        part.add_argument("--first", type=int, default=0, help="the number of models to skip")
        part.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
        part.add_argument("--seconds", type=float, default=math.inf, help="after which no model is started")
    written = commands.add_parser("write", help="writes the page")
    written.add_argument("--results", type=Path, required=True)
    written.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    if hasattr(args, "peer"):
        args.peer = args.peer or list(PEERS)
    match args.command:
        case "list":
            args.output.write_text(json.dumps(drawn_names(), indent=1) + "\n")
        case "run":
            run(args)
        case "prepare":
            prepare(args.entry, args)
        case "time":
            print(json.dumps(timed(args.entry, args)), flush=True)
        case "write":
            write(args)


if __name__ == "__main__":
    main()
