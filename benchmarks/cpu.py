"""burn on the CPU beside ONNX Runtime, OpenVINO and torch.compile: whole models, interleaved in one process. Writes a table.

    python benchmarks/cpu.py --figures FIGURES.json --models "seeded_vgg19 minilm" --threads 2     # a part, added to the figures
    python benchmarks/cpu.py --figures FIGURES.json --models minilm --target avx2 --threads 2,1   # another
    python benchmarks/cpu.py --figures FIGURES.json --write benchmarks/cpu.md                     # measures nothing

`--write` replaces the tables of the figures' targets and numbers of threads. It leaves the others, which may be of another
machine, unchanged. Each model, number of threads, target and peer is one figure; a new measurement replaces the old one.
Engines that are not installed or fail, and missing models, are listed and left out. `--target` restricts burn alone; with
`--seen-as-target` its peers also see such a CPU (older/). Figures are medians over alternating blocks
(burn/bench/interleave.py: a block begins when no other engine's threads spin any more). `--precision bf16` adds figures of
matmuls in bfloat16, beside OpenVINO with that hint and torch under autocast.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pages import Tables, heading, page_of

import burn
from burn.bench.interleave import Plan, bind, interleave
from burn.bench.peers import PEERS, Run, Where, version
from burn.bench.report import difference, processor
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
    "efficientnet",
    "yolo",
    "unet",
    "minilm",
    "vit_tiny",
    "bert_base",
    "gpt2",
    "gpt2:seq=128,past=0",
    "whisper_tiny",
    "t5_small",
    "lstm",
    "magika",
    "silero_vad",
    "ultraface",
)
"""The timed models: names of benchmarks/registry.py, at its sizes unless others follow."""
PEERS_WANTED = ("onnxruntime", "openvino", "torch.compile")

SAME = {"fp32": 1e-3, "bf16": 6e-2, "fp16": 8e-3}
"""How far results may be apart, of the largest number: beyond that engines do not compute the same. Both of two results in half
precision are rounded."""
OTHERS = 0.05
"""Of the machine: a figure taken while other processes took more is marked."""


@dataclass(frozen=True)
class Figure:
    """burn beside one peer: medians in seconds, and burn's time over the peer's, round by round."""

    model: str
    target: str
    threads: int
    peer: str
    version: str
    burn: float
    theirs: float
    ratio: float
    disturbed: bool
    day: str
    machine: str
    precision: str = "fp32"

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.model, self.section, self.threads, self.peer

    @property
    def section(self) -> str:
        """The target, and the precision if it is not float32."""
        return self.target if self.precision == "fp32" else f"{self.target} {self.precision}"


def subject(text: str) -> Subject:
    """Of `name` or `name:size=number,size=number`."""
    name, _, sizes = text.partition(":")
    pairs = (pair.partition("=") for pair in sizes.split(",") if pair)
    return find(name, {symbol: int(number) for symbol, _, number in pairs})


def measured(
    it: Subject,
    peers: Sequence[str],
    threads: int,
    target: str,
    plan: Plan,
    machine: str,
    seen: AbstractContextManager[None],
    precision: str = "fp32",
) -> list[Figure]:
    """Peers are loaded inside of `seen`. Raises BurnError where no peer can be asked, or results differ."""
    runs: dict[str, Run] = {"burn": burn.load(it.path, threads=threads, target=target, precision=precision).run}
    where = Where(precision=precision)
    results = {"burn": runs["burn"](it.feeds)}
    with seen:
        for name in peers:
            peer = PEERS[name]
            if missing := peer.lacks(it, where):
                print(f"{it.label}: no {name}: {missing}", flush=True)
                continue
            try:
                run = peer.load(it, threads, None, where)
                results[name], runs[name] = run(it.feeds), run
            except Exception as error:  # whatever an engine says: the others are timed all the same
                print(f"{it.label}: no {name}: {type(error).__name__}: {error}"[:600], flush=True)
    if len(runs) == 1:
        raise BurnError("there is nothing to compare with", ["install onnxruntime or openvino"])
    for name, result in results.items():
        if not (apart := difference(results["burn"], result)) <= SAME[precision]:
            raise BurnError(f"the results of {name} differ", [f"by {apart:.1e} of the largest number"])
    taken = interleave({name: (lambda run=run: run(it.feeds)) for name, run in runs.items()}, plan)
    ours = taken.timings["burn"]
    disturbed = taken.restless or (taken.others or 0.0) > OTHERS
    day = str(datetime.date.today())
    return [
        Figure(
            it.label,
            target,
            threads,
            name,
            version(PEERS[name]),
            ours.median,
            timing.median,
            ours.ratio(timing),
            disturbed,
            day,
            machine,
            precision,
        )
        for name, timing in taken.timings.items()
        if name != "burn"
    ]


def tables(figures: Iterable[Figure]) -> Tables:
    """By target and number of threads, with the geometric mean of the ratios to the fastest peer, and the worst."""
    groups: dict[tuple[str, int], list[Figure]] = {}
    for figure in figures:
        groups.setdefault((figure.section, figure.threads), []).append(figure)
    return {
        (target, threads): "\n\n".join([heading(target, threads), _origin(found), _table(found)])
        for (target, threads), found in groups.items()
    }


def _origin(found: Sequence[Figure]) -> str:
    days = sorted({figure.day for figure in found})
    versions = sorted({f"{figure.peer} {figure.version}" for figure in found})
    machines = sorted({figure.machine for figure in found})
    return f"{', '.join(machines)}; {' to '.join(dict.fromkeys([days[0], days[-1]]))}; {', '.join(versions)}."


def _table(found: Sequence[Figure]) -> str:
    peers = sorted({figure.peer for figure in found}, key=list(PEERS).index)
    lines = [f"| {' | '.join(['model', 'burn', *peers, 'of the fastest peer'])} |", f"|{' --- |' * (len(peers) + 3)}"]
    worst = []
    rows: dict[str, dict[str, Figure]] = {}
    for figure in found:
        rows.setdefault(figure.model, {})[figure.peer] = figure
    for model, row in sorted(rows.items(), key=lambda item: _row_number(item[0])):
        worst.append(max(figure.ratio for figure in row.values()))
        ours = statistics.median(figure.burn for figure in row.values())
        mark = "*" * any(figure.disturbed for figure in row.values())
        theirs = [f"{1e3 * row[peer].theirs:.2f} ms ({row[peer].ratio:.2f})" if peer in row else "" for peer in peers]
        lines.append(f"| {' | '.join([model + mark, f'{1e3 * ours:.2f} ms', *theirs, f'{worst[-1]:.2f}'])} |")
    lines.append(
        f"\nGeometric mean {statistics.geometric_mean(worst):.2f}, worst {max(worst):.2f}, of {len(worst)} models."
    )
    if any(figure.disturbed for figure in found):
        lines.append("\n\\* Other processes, or an engine's waiting threads, took part of the machine meanwhile.")
    return "\n".join(lines)


def _row_number(label: str) -> int:
    """Where its name stands in `MODELS`."""
    name = label.partition(" ")[0]
    return next((i for i, known in enumerate(MODELS) if known.partition(":")[0] == name), len(MODELS))


INTRODUCTION = (
    "# burn on the CPU, beside its peers",
    "Written by `python benchmarks/cpu.py`: float32 unless a section says otherwise, one call at a time. "
    "Medians of interleaved runs in one process. In "
    "brackets is burn's time over that peer's, and in the last column over the fastest peer's: below 1 burn is ahead. "
    "A target (`vnni` is AVX-512 with int8 instructions, `amx` has tile registers) restricts burn; its peers use all "
    "instructions of the CPU. A section names the CPU with the widest target that it supports, and the CPU that peers "
    "detected if that was restricted. Models from PyTorch and `seeded` ones have random weights.",
)
"""The page's heading and first paragraph."""


def document(figures: Sequence[Figure], before: str = "") -> str:
    """The page, with the tables of the page before that there are no figures for."""
    return page_of(INTRODUCTION, tables(figures), before)


def read(path: Path) -> list[Figure]:
    return [Figure(**entry) for entry in json.loads(path.read_text())] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--figures", type=Path, required=True, help="a JSON file, where figures are kept from run to run"
    )
    parser.add_argument("--write", type=Path, help="put the figures' tables there, and measure nothing")
    parser.add_argument("--models", default=" ".join(MODELS), help="names or ONNX files, with spaces between them")
    parser.add_argument("--threads", default="2,1", help="numbers of threads")
    parser.add_argument("--target", choices=list(TARGETS), help="the CPU that burn compiles for; this one by default")
    parser.add_argument("--seen-as-target", action="store_true", help="let its peers find such a CPU, too")
    parser.add_argument("--peers", default=",".join(PEERS_WANTED), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--precision", choices=list(SAME), default="fp32", help="of matmuls and convolutions")
    parser.add_argument("--runs", type=int, default=18, help="that are counted, of each engine")
    args = parser.parse_args()
    figures = {figure.key: figure for figure in read(args.figures)}
    if args.write:
        before = args.write.read_text() if args.write.exists() else ""
        args.write.write_text(document(list(figures.values()), before) + "\n")
        return
    here = host_target(features()).name
    target, machine = args.target or here, f"{processor()} ({platform.machine()}, {here})"
    seen: Callable[[], AbstractContextManager[None]] = nullcontext
    if args.seen_as_target:
        from older import seen_as

        seen = partial(seen_as, target)
        machine = machine.replace(f"{here})", f"{here} seen as {target})")
    for threads in sorted(map(int, args.threads.split(",")), reverse=True):  # a process can be bound to fewer CPUs only
        bind(threads)
        for name in args.models.split():
            try:
                with seen():  # a file that is not there yet is exported, and PyTorch looks at the CPU once
                    it = subject(name)
                how = it, args.peers.split(","), threads, target, Plan(runs=args.runs), machine, seen(), args.precision
                found = measured(*how)
            except Exception as error:  # whatever an engine says: the others are timed all the same
                print(f"{name}: {type(error).__name__}: {error}"[:600], flush=True)
                continue
            figures |= {figure.key: figure for figure in found}
            args.figures.write_text(json.dumps([asdict(figure) for figure in figures.values()], indent=1))
            for figure in found:
                peer = f"{figure.peer} {1e3 * figure.theirs:.2f} ms ({figure.ratio:.2f})"
                disturbed = ", disturbed" * figure.disturbed
                print(f"{figure.model}, {threads} threads: {1e3 * figure.burn:.2f} ms, {peer}{disturbed}", flush=True)


if __name__ == "__main__":
    main()
