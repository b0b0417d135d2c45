"""Output of `burn-bench`: one table for each kind of figure, or JSON."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from burn.bench.cold import Cold
from burn.bench.interleave import Timing
from burn.bench.peers import PEERS, version
from burn.bench.subject import Feeds
from burn.runtime.host import processor


@dataclass
class Row:
    """One engine on one model."""

    peer: str
    load: float = math.nan  # seconds to load and compile in this process
    timing: Timing | None = None
    ratio: float = math.nan  # its time over the reference's
    difference: float = math.nan  # largest |a - b| / max|b| over the outputs, b the first other engine's
    cold: Cold | None = None
    paused: dict[float, Timing] = field(default_factory=dict)  # by seconds of sleep before each call
    absent: str = ""  # why the engine cannot be asked
    error: str = ""  # what it said when it was


@dataclass
class Result:
    """One model: a row an engine, and how quiet the machine was."""

    label: str
    path: str
    rows: list[Row] = field(default_factory=list)
    others: float | None = None
    restless: bool = False


def geomean(results: Sequence[Result], peer: str) -> float:
    """Of the ratios of `peer`; nan unless every model has one."""
    ratios = [row.ratio for result in results for row in result.rows if row.peer == peer]
    if len(ratios) < len(results) or any(math.isnan(ratio) for ratio in ratios):
        return math.nan
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def difference(got: Feeds, want: Feeds) -> float:
    """Largest difference over all outputs, relative to the output's largest value; outputs are matched in order."""
    if len(got) != len(want):
        raise ValueError(f"{len(got)} outputs, not {len(want)}")
    worst = 0.0
    for (name, a), b in zip(got.items(), want.values(), strict=True):
        if a.shape != b.shape:
            raise ValueError(f"output '{name}' has shape {a.shape}, not {b.shape}")
        if a.size and a.dtype.kind in "fiub":
            wide, other = a.astype(np.float64), b.astype(np.float64)
            worst = max(worst, float(np.abs(wide - other).max() / (np.abs(other).max() or 1.0)))
    return worst


def show(console: Console, results: Sequence[Result], reference: str, threads: int, cold: bool) -> None:
    console.print(_warm_table(results, reference, threads))
    if any(row.paused for result in results for row in result.rows):
        console.print(_paused_table(results))
    if cold:
        console.print(_cold_table(results))
    for (peer, reason), models in _absent(results).items():
        console.print(f"not timed: {peer} on {', '.join(models)}: {reason}", markup=False)
    for result in results:
        for row in result.rows:
            if row.error:
                console.print(f"{result.label}: {row.peer} failed: {row.error}", markup=False, style="red")
        if result.others is not None and result.others > 0.05:
            console.print(f"{result.label}: other processes took {result.others:.0%} of the machine meanwhile")
        if result.restless:
            console.print(f"{result.label}: an engine's threads never came to rest between turns")


def _absent(results: Sequence[Result]) -> dict[tuple[str, str], list[str]]:
    """Engine and reason -> the models that it was not asked about."""
    absent: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for row in result.rows:
            if row.absent:
                absent.setdefault((row.peer, row.absent), []).append(result.label)
    return absent


def _warm_table(results: Sequence[Result], reference: str, threads: int) -> Table:
    title = f"One inference, {threads} thread{'s' if threads > 1 else ''}; ratio to the time of {reference}"
    table = _table(title, ("median ms", "p95 ms", "ratio", "difference", "load s"))
    for result in results:
        shown = [row for row in result.rows if not row.absent]
        for index, row in enumerate(shown):
            label = result.label if index == 0 else ""
            if row.timing is None:
                table.add_row(label, row.peer, "failed", style="red")
                continue
            table.add_row(
                label,
                row.peer,
                _ms(row.timing.median),
                _ms(row.timing.percentile(0.95)),
                _number(row.ratio, ".2f"),
                _number(row.difference, ".0e"),
                f"{row.load:.2f}",
            )
        table.add_section()
    if len(results) > 1:
        for peer in dict.fromkeys(row.peer for result in results for row in result.rows):
            mean = geomean(results, peer)
            if not math.isnan(mean):
                table.add_row("geometric mean", peer, "", "", f"{mean:.2f}", style="bold")
    return table


def _table(title: str, figures: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("model", "engine"):
        table.add_column(heading, no_wrap=True)
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cold_table(results: Sequence[Result]) -> Table:
    headings = ("cache empty s", "warm s", "peak MB, empty", "warm", "file MB")
    table = _table("A fresh process: start to first result, and memory", headings)
    for result in results:
        size = Path(result.path).stat().st_size
        for row in result.rows:
            if row.cold is not None:
                times = (f"{row.cold.empty:.2f}", f"{row.cold.warm:.2f}")
                table.add_row(result.label, row.peer, *times, _mb(row.cold.peak), _mb(row.cold.peak_warm), _mb(size))
    return table


def _paused_table(results: Sequence[Result]) -> Table:
    pauses = list(next(row.paused for result in results for row in result.rows if row.paused))
    headings = ["back to back" if not pause else f"{1000 * pause:g} ms" for pause in pauses]
    table = _table("One call after a pause: p50 / p99 in ms", headings)
    for result in results:
        for row in result.rows:
            if row.paused:
                cells = (f"{_ms(timing.median)} / {_ms(timing.percentile(0.99))}" for timing in row.paused.values())
                table.add_row(result.label, row.peer, *cells)
        table.add_section()
    return table


def as_json(results: Sequence[Result], reference: str, threads: int) -> dict[str, Any]:
    """The tables' figures, in seconds and bytes, with every engine's version."""
    peers = list(dict.fromkeys(row.peer for result in results for row in result.rows))
    return {
        "machine": {"processor": processor(), "system": platform.platform(), "python": platform.python_version()},
        "threads": threads,
        "reference": reference,
        "versions": {peer: version(PEERS[peer]) for peer in peers},
        "models": [
            {
                "model": result.label,
                "others": result.others,
                "restless": result.restless,
                "engines": {row.peer: _row(row) for row in result.rows},
            }
            for result in results
        ],
        "geomean": {peer: _finite(geomean(results, peer)) for peer in peers},
    }


def _row(row: Row) -> dict[str, Any]:
    if row.error or row.absent:
        return {"error": row.error} if row.error else {"absent": row.absent}
    values: dict[str, Any] = {
        "load": _finite(row.load),
        "ratio": _finite(row.ratio),
        "difference": _finite(row.difference),
    }
    if row.timing is not None:
        values |= {"median": row.timing.median, "p95": row.timing.percentile(0.95), "rounds": row.timing.rounds}
    if row.cold is not None:
        values["cold"] = asdict(row.cold)
    if row.paused:
        values["pauses"] = {f"{pause:g}": timing.rounds for pause, timing in row.paused.items()}
    return values


def _ms(seconds: float) -> str:
    ms = 1000 * seconds
    return f"{ms:.1f}" if ms >= 100 else f"{ms:.2f}" if ms >= 1 else f"{ms:.4f}"


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f}"


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else format(value, form)


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else value
