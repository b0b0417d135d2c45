"""burn on the CPU beside ONNX Runtime, OpenVINO and torch.compile: whole models, by turns in one process. Writes a table.

    python benchmarks/cpu.py --output benchmarks/cpu.md
    python benchmarks/cpu.py --models seeded_vgg19,minilm --threads 2 --target avx2     # a part of it

Engines that are not installed, and models that are not here, are left out and named. `--target` restricts burn alone: its peers
choose their instructions themselves (OpenVINO's are restricted by ONEDNN_MAX_CPU_ISA=AVX2 in the environment). Medians over turns
(burn/bench/interleave.py); a ratio is that of burn's time to a peer's.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import burn
from burn.bench.interleave import Plan, bind, interleave
from burn.bench.peers import PEERS, Run, version
from burn.bench.report import difference
from burn.bench.subject import Subject, find
from burn.codegen.cpu.target import TARGETS, host_target
from burn.errors import BurnError
from burn.runtime.host import features

MODELS = (
    "seeded_densenet121",
    "seeded_inception_v2",
    "seeded_resnet50",
    "seeded_shufflenet",
    "seeded_squeezenet",
    "seeded_vgg19",
    "mobilenet",
    "unet",
    "minilm",
    "vit_tiny",
    "bert_base",
    "gpt2",
    "lstm",
    "magika",
    "silero_vad",
    "ultraface",
)
PEERS_WANTED = ("onnxruntime", "openvino", "torch.compile")

SAME = 1e-3
"""How far results may be apart, of the largest number: beyond that engines do not compute the same."""


@dataclass(frozen=True)
class Row:
    """A model's medians in seconds, by engine, and burn's time over each peer's."""

    model: str
    times: dict[str, float]
    ratios: dict[str, float]

    @property
    def worst(self) -> float:
        """Over the fastest peer's."""
        return max(self.ratios.values())


def measured(subject: Subject, peers: Sequence[str], threads: int, target: str | None, plan: Plan) -> Row:
    """Raises BurnError where no peer can be asked, or results differ."""
    runs: dict[str, Run] = {"burn": burn.load(subject.path, threads=threads, target=target).run}
    for name in peers:
        peer = PEERS[name]
        if missing := peer.lacks(subject):
            print(f"{subject.label}: no {name}: {missing}", flush=True)
            continue
        runs[name] = peer.load(subject, threads, None)
    if len(runs) == 1:
        raise BurnError("there is nothing to compare with", ["install onnxruntime or openvino"])
    results = {name: run(subject.feeds) for name, run in runs.items()}
    for name, result in results.items():
        if not (apart := difference(results["burn"], result)) <= SAME:
            raise BurnError(f"the results of {name} differ", [f"by {apart:.1e} of the largest number"])
    calls = {name: (lambda run=run: run(subject.feeds)) for name, run in runs.items()}
    timings = interleave(calls, plan).timings
    ratios = {name: timings["burn"].ratio(timing) for name, timing in timings.items() if name != "burn"}
    return Row(subject.label, {name: timing.median for name, timing in timings.items()}, ratios)


def rows(models: Sequence[str], peers: Sequence[str], threads: int, target: str | None, plan: Plan) -> list[Row]:
    """What fails is told, and the others are timed all the same."""
    found = []
    for name in models:
        try:
            found.append(measured(find(name, {}), peers, threads, target, plan))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}"[:600], flush=True)
        else:
            print(f"{name}, {threads} threads: {found[-1].times}, {found[-1].worst:.2f}", flush=True)
    return found


def table(found: Sequence[Row]) -> str:
    """With the geometric mean of the ratios to the fastest peer, and the worst of them."""
    engines = list(dict.fromkeys(name for row in found for name in row.times))
    lines = [f"| {' | '.join(['model', *engines, 'of the fastest peer'])} |", f"|{' --- |' * (len(engines) + 2)}"]
    for row in found:
        times = [f"{1e3 * row.times[name]:.2f} ms" if name in row.times else "" for name in engines]
        lines.append(f"| {' | '.join([row.model, *times, f'{row.worst:.2f}'])} |")
    ratios = [row.worst for row in found]
    if ratios:
        lines.append(f"\nGeometric mean {statistics.geometric_mean(ratios):.2f}, worst {max(ratios):.2f}.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="where to write the tables")
    parser.add_argument("--models", default=",".join(MODELS), help="names, or ONNX files")
    parser.add_argument("--threads", default="2,1", help="numbers of threads")
    parser.add_argument("--target", choices=list(TARGETS), help="the CPU that burn compiles for; this one by default")
    parser.add_argument("--peers", default=",".join(PEERS_WANTED), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--runs", type=int, default=18, help="that are counted, of each engine")
    args = parser.parse_args()
    peers, plan = args.peers.split(","), Plan(runs=args.runs)
    target = args.target or host_target(features()).name
    installed = [f"{name} {version(PEERS[name])}" for name in peers if version(PEERS[name]) != "unknown"]
    parts = [
        "# burn on the CPU, beside its peers",
        f"Written by `python benchmarks/cpu.py` on {datetime.date.today()}: {platform.machine()}, burn for {target}, "
        f"{', '.join(installed)}, float32. Medians of a call; the last column is burn's time over that of the fastest peer: "
        "below 1 burn is ahead.",
    ]
    for threads in sorted(map(int, args.threads.split(",")), reverse=True):  # a process can be bound to fewer CPUs only
        bind(threads)
        heading = f"## {threads} thread{'s' * (threads > 1)}"
        parts += [heading, table(rows(args.models.split(","), peers, threads, args.target, plan))]
    text = "\n\n".join(parts) + "\n"
    print(text)
    if args.output:
        args.output.write_text(text)


if __name__ == "__main__":
    main()
