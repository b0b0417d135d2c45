"""`burn-bench`: times burn and its peers on the same models, alternating in one process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from burn.bench.cold import measure
from burn.bench.comparison import compare
from burn.bench.interleave import Plan, bind
from burn.bench.load import Others
from burn.bench.pauses import BUSY, after_pauses, busy_neighbour
from burn.bench.peers import PEERS, FilePeer, Where
from burn.bench.report import Result, as_json, show
from burn.bench.subject import Feeds, Subject, find
from burn.bench.training import STEPPERS, Setting, Trained, show_trained
from burn.bench.training import measure as trained
from burn.bench.twins import CASES, GPU_CASES
from burn.cli.common import Precision, Size, Terminal, once
from burn.cli.profile import profiled, show_profile
from burn.cli.profile import roofline as measured
from burn.codegen.tuning.modes import MODES
from burn.errors import BurnError
from burn.options import HALF, precision_of
from burn.runtime.files import save_text

PROFILED = 5  # runs of a profile, which shows medians
PIPE_WIDTH = 110  # columns of a table that no terminal shows
log = Terminal(stderr=True, highlight=False)


class Peers(click.ParamType):
    """A comma-separated list of engines, which are `known` by these names."""

    name = "NAMES"

    def __init__(self, known: Collection[str]) -> None:
        self.known = known

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        names = value if isinstance(value, list) else [name.strip() for name in str(value).split(",") if name.strip()]
        unknown = [name for name in names if name not in self.known]
        if unknown or not names:
            self.fail(f"{', '.join(unknown) or 'empty'}: the engines are {', '.join(self.known)}", param, ctx)
        return list(dict.fromkeys(names))


class Bench(click.Group):
    """Names models at once, or what else is timed: what is no command's name is for `models`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args[:1] == ["train"] else ["models", *args])


@click.group(cls=Bench, add_help_option=False)
def main() -> None:
    """Time burn and its peers."""


@main.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "--peers", type=Peers(PEERS), default="burn,onnxruntime", show_default=True, help=f"of {', '.join(PEERS)}"
)
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True, help="for every engine")
@click.option("--batch", type=click.IntRange(0), help="short for --dim batch=NUMBER")
@click.option("--seq", type=click.IntRange(0), help="short for --dim seq=NUMBER")
@click.option(
    "--dim",
    "dims",
    type=Size(),
    multiple=True,
    callback=once,
    help="size of a symbol in the models' inputs; repeatable",
)
@click.option(
    "--runs", type=click.IntRange(1), default=30, show_default=True, help="counted runs of an engine, at least"
)
@click.option("--rounds", type=click.IntRange(1), default=6, show_default=True, help="turns that they are spread over")
@click.option(
    "--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="write the figures there too"
)
@click.option("--cold", is_flag=True, help="also time fresh processes, and their peak memory")
@click.option("--pauses", is_flag=True, help="also single calls after sleeps of 0 to 200 ms: p50 and p99")
@click.option(
    "--beside",
    type=click.Choice([BUSY, *PEERS]),
    help=f"with --pauses: an engine that runs before each pause, or {BUSY}: a process that computes on the same CPUs",
)
@click.option("--roofline", is_flag=True, help="also every kernel of burn's, and what share of the machine it reaches")
@click.option(
    "--device", default="cpu", show_default=True, help="cpu, or a GPU: cuda, cuda:1 (burn, torch, torch.compile)"
)
@click.option(
    "--precision",
    type=Precision(),
    default="fp32",
    show_default=True,
    help="of matmuls; torch's autocast",
)
@click.option("--autotune", type=click.Choice(MODES), help="burn's; off, or BURN_AUTOTUNE, by default")
def models(
    models: tuple[str, ...],
    peers: list[str],
    threads: int,
    batch: int | None,
    seq: int | None,
    dims: tuple[tuple[str, int], ...],
    runs: int,
    rounds: int,
    json_path: Path | None,
    cold: bool,
    pauses: bool,
    beside: str | None,
    roofline: bool,
    device: str,
    precision: str,
    autotune: str | None,
) -> None:
    """Time engines on models. MODEL is an ONNX file, or in a checkout a name from benchmarks/registry.py. `train` instead of
    MODEL times training steps."""
    short = {"batch": batch, "seq": seq}
    sizes = {**{name: size for name, size in short.items() if size is not None}, **dict(dims)}
    reference = "burn" if "burn" in peers else peers[0]
    try:
        subjects = [find(model, sizes) for model in models]
        unused = sizes.keys() - {symbol for subject in subjects for symbol in subject.sizes}
        if unused:
            raise BurnError(f"no model has a size named {', '.join(sorted(unused))}")
        where = Where(device, precision, autotune)
        if cold and where != Where():
            raise BurnError("fresh processes are timed on the CPU in fp32 only, as they are by default")
        if beside and not pauses:
            raise BurnError("--beside is about calls after pauses: add --pauses")
        if pauses and not where.is_host:
            raise BurnError("--pauses is for the CPU")
        if roofline and not where.is_host:
            raise BurnError("--roofline is for the CPU: the peak throughput of GPUs is not measured")
        cpus = bind(threads) if where.is_host else threads
        if cpus < threads:
            log.print(f"note: {threads} threads share {cpus} CPUs")
        results, profiles = [], {}
        for number, subject in enumerate(subjects, 1):
            log.print(f"[{number}/{len(subjects)}] {subject.label}")
            results.append(compare(subject, peers, reference, threads, Plan(runs, rounds), where))
            if pauses:
                _add_pauses(results[-1], subject, threads, where, beside)
            if cold:
                _add_cold(results[-1], subject, threads)
            if roofline:
                profiles[subject.label] = _profiled(subject, threads, precision, autotune)
    except BurnError as error:
        log.print(str(error), style="red", markup=False)
        sys.exit(1)
    terminal = Terminal(highlight=False)
    out = terminal if terminal.is_terminal else Terminal(highlight=False, width=PIPE_WIDTH)
    show(out, results, reference, threads, cold)
    for label, profile in profiles.items():
        out.print(f"\n{label}", markup=False)
        show_profile(out, profile)
    if json_path is not None:
        figures = as_json(results, reference, threads) | ({"profiles": profiles} if roofline else {})
        save_text(json_path, json.dumps(figures, indent=1) + "\n")
    sys.exit(1 if any(row.error for result in results for row in result.rows) else 0)


@main.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice([*CASES, *GPU_CASES]), metavar="MODEL...")
@click.option("--peers", type=Peers(STEPPERS), default=",".join(STEPPERS), show_default=True, help="which of them")
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True, help="for every one of them")
@click.option("--runs", type=click.IntRange(1), default=15, show_default=True, help="counted steps, at least")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="turns that they are spread over")
@click.option("--memory/--no-memory", default=True, help="also what steps take of a host's memory, in own processes")
@click.option("--device", default="cpu", show_default=True, help="cpu, or a GPU: cuda, cuda:1")
@click.option("--precision", type=Precision(["fp32", *HALF]), default="fp32", show_default=True, help="of matmuls")
@click.option(
    "--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="write the figures there too"
)
def train(
    names: tuple[str, ...],
    peers: list[str],
    threads: int,
    runs: int,
    rounds: int,
    memory: bool,
    device: str,
    precision: str,
    json_path: Path | None,
) -> None:
    """Time training steps (AdamW) of models in burn and torch: cnn, gpt, resnet18 and minilm, or, for GPUs, bert-base, gpt2 and
    resnet50. The default depends on the device."""
    setting = Setting(threads, device, precision_of(precision))
    results: list[Trained] = []
    try:
        if setting.is_host:
            bind(threads)
        for name in names or (CASES if setting.is_host else GPU_CASES):
            log.print(name)
            results.append(trained(name, peers, setting, Plan(runs, rounds), memory and setting.is_host))
    except BurnError as error:
        log.print(str(error), style="red", markup=False)
        sys.exit(1)
    terminal = Terminal(highlight=False)
    show_trained(terminal if terminal.is_terminal else Terminal(highlight=False, width=PIPE_WIDTH), results, setting)
    if json_path is not None:
        save_text(json_path, json.dumps([result.as_json() for result in results], indent=1) + "\n")


def _profiled(subject: Subject, threads: int, precision: str, autotune: str | None) -> dict[str, Any]:
    import burn

    executable = burn.load(subject.path, threads=threads, precision=precision, autotune=autotune)
    with Others() as others:
        profile, roof = executable.profile(**subject.feeds, repeat=PROFILED), measured()
    return profiled(profile, roof, others)


def _add_pauses(result: Result, subject: Subject, threads: int, where: Where, beside: str | None) -> None:
    def load(peer: str) -> Callable[[], Feeds]:
        return partial(PEERS[peer].load(subject, threads, None, where), subject.feeds)

    other = None
    if beside in PEERS:
        if reason := PEERS[beside].lacks(subject, where):
            raise BurnError(f"{beside} cannot run beside the others: {reason}")
        other = load(beside)
    engines = {row.peer: load(row.peer) for row in result.rows if row.timing is not None}
    with busy_neighbour() if beside == BUSY else nullcontext():
        timings = after_pauses(engines, beside=other)
    for row in result.rows:
        row.paused = timings.get(row.peer, {})


def _add_cold(result: Result, subject: Subject, threads: int) -> None:
    for row in result.rows:
        if isinstance(PEERS[row.peer], FilePeer) and not row.error and not row.absent:
            row.cold = measure(row.peer, subject, threads)


if __name__ == "__main__":
    main()
