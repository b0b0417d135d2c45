"""Rows of results in a JSON-lines file, means and tables: shared by the pages of cpu_zoo.py and gpu_zoo.py."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
"""A model's name and list, the settings of a run, and its figures or errors."""


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a results file, none if it is not there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(row: Row, path: Path) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def mean(numbers: Sequence[float]) -> float:
    """The geometric mean; NaN of none."""
    return math.exp(sum(map(math.log, numbers)) / len(numbers)) if numbers else math.nan


def markdown(names: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table."""
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"
    for cells in lines:
        yield f"| {' | '.join(cells)} |"


def kernel_cells(row: Row) -> list[str]:
    """The share of the roofline that a model reaches, and the kernel that loses the most time to its own."""
    share, worst = f"{row['roofline']:.0%}" if "roofline" in row else "", next(iter(row.get("kernels", [])), None)
    if worst is None:
        return [share, ""]
    return [share, f"{worst['kernel']}: {worst['of_time']:.0%} of the time, {worst['of_roofline']:.0%} of its roofline"]


def by_setting(rows: Iterable[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each setting, in the order of their first row. Of several rows of a model, the last one counts."""
    found: dict[tuple[Any, ...], dict[tuple[str, str], Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(key) for key in keys), {})[row["list"], row["name"]] = row
    return {key: list(models.values()) for key, models in found.items()}


def written_by(script: str) -> str:
    return f"Written by `python benchmarks/{script} write` on {datetime.date.today()}"


HEADING = "## "


def sections_of(page: str) -> dict[str, str]:
    """A page's sections by their headings. The text of one contains its heading."""
    parts = f"\n{page}".split(f"\n{HEADING}")[1:]
    return {part.splitlines()[0]: f"{HEADING}{part.strip()}" for part in parts}


def short(text: str, most: int = 200) -> str:
    """The end of a text, on one line."""
    return " ".join(text.split())[-most:]
