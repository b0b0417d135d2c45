"""A training's end as a table: every metric as it was last and when it was best."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from burn.train.events import Summary

WIDTH = 100  # columns at most


def table(summary: Summary) -> str:
    """The summary of a training as text."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("metric")
    for name in ("train", "valid", "best"):
        made.add_column(name, justify="right")
    made.add_column("of epoch", justify="right")
    for name in [*summary.train, *(n for n in summary.valid if n not in summary.train)]:
        best, epoch = summary.best.get(name, (math.nan, 0))
        cells = (spelled(values[name]) if name in values else "" for values in (summary.train, summary.valid))
        made.add_row(name, *cells, spelled(best) if epoch else "", str(epoch or ""))
    text = io.StringIO()
    Console(file=text, width=WIDTH, highlight=False, markup=False).print(made)
    lines = [title(summary), *(line.rstrip() for line in text.getvalue().splitlines() if line.strip())]
    if summary.checkpoint is not None:
        lines.append(f"checkpoint: {summary.checkpoint}")
    return "\n".join(lines)


def title(summary: Summary) -> str:
    count = f"{summary.epochs} epoch{'s' * (summary.epochs != 1)}, {summary.steps} steps, {duration(summary.seconds)}"
    ended = "" if summary.reason == "done" else f": {summary.reason}"
    return f"{summary.run}: {count}{ended}"


def spelled(value: float) -> str:
    """A metric's value with as many digits as tell something."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e6:
        return str(int(value))
    if not math.isfinite(value) or 1e-3 <= abs(value) < 100:
        return f"{value:.4f}"
    return f"{value:.1f}" if 100 <= abs(value) < 1e6 else f"{value:.3e}"


def duration(seconds: float) -> str:
    """A time for people: 3.2 s, 2:05, 1:02:05."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
