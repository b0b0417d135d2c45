"""The page: a table for each setting, from rows of results. Enter at `write`."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.pages import HEADING, kernel_cells, markdown, mean, rows_of, sections_of, short
from zoo.settings import JAX, MODES, THROUGH, Setting, kind_of

INTRODUCTION = """# Models drawn from packages' lists, on a GPU

Written by `python benchmarks/gpu_zoo.py write`. Each section has its date and GPU. Weights are random. Ratio: the best time of \
torch.compile over burn's, or eager's if torch.compile failed. The difference from eager is the largest one over the largest \
number. That of a training step is of the first loss, beyond the spread of eager's losses, which dropout causes; the losses \
after three steps are compared, too. jax: the model \
as a function of JAX, by `burn.to_jax`, compiled by XLA. It is no part of the ratio. The script says how names are drawn and how \
the roofline is counted."""

WRONG = 0.05
"""The difference from eager, over the largest number, above which a result counts as wrong. In half precision others differ by
up to 0.005."""

WRONG_LATER = 0.1
"""The same for the loss after some training steps, in which rounding adds up."""


def is_wrong(row: Mapping[str, Any]) -> bool:
    """True for a difference that is too large, and for NaN, which no number is compared with."""
    return not (row.get("differs", 0) <= WRONG and row.get("differs later", 0) <= WRONG_LATER)


def ratio(row: Mapping[str, Any]) -> float | None:
    """torch.compile's best time over burn's; eager's if it failed. None for a model that is not timed, or wrong."""
    if is_wrong(row):
        return None
    seconds = row.get("seconds", {})
    own = seconds.get("burn")
    best = min((seconds[mode] for mode in MODES if mode in seconds), default=seconds.get("eager"))
    return best / own if own and best else None


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    modes = sorted(
        {name for row in rows for name in row.get("seconds", {})} - {"burn"}, key=lambda m: (m != "eager", m)
    )
    names = ["model", "burn ms", *(f"{mode} ms" for mode in modes), "ratio"]
    more = [key for key in TIMES if any(key in row for row in rows)]
    names += [f"{TIMES[key]}, burn / {mode}" for key in more for mode in modes if mode not in ("eager", JAX)]
    have_errors = any("differs" in row for row in rows)
    names += ["differs from eager"] if have_errors else []
    have_profiles = any("roofline" in row for row in rows)
    names += ["of the roofline", "worst kernel"] if have_profiles else []

    def cells(row: Mapping[str, Any]) -> list[str]:
        found = ratio(row)
        times = [f"{1e3 * row['seconds'][m]:.3f}" if m in row["seconds"] else "" for m in ("burn", *modes)]
        pairs = [_pair(row.get(key, {}), mode) for key in more for mode in modes if mode not in ("eager", JAX)]
        first = [f"{row['list']} {row['name']}", *times, "" if found is None else f"{found:.2f}", *pairs]
        first += [f"{row['differs']:.0e}" if "differs" in row else ""] if have_errors else []
        return [*first, *(kernel_cells(row) if have_profiles else [])]

    timed = [row for row in rows if "burn" in row.get("seconds", {}) and not is_wrong(row)]
    return markdown(names, map(cells, sorted(timed, key=lambda row: ratio(row) or 0)))


TIMES = {"in_a_row": "in a row", "host": "host"}
"""Times besides that of a synchronised call, by their keys in a row."""


def _pair(times: Mapping[str, float], mode: str) -> str:
    return f"{1e3 * times['burn']:.3f} / {1e3 * times[mode]:.3f}" if "burn" in times and mode in times else ""


def write(results: Path, output: Path) -> None:
    """The last row of each model and setting counts. Sections of the page that have no new rows stay as they are."""
    rows = list({(row["list"], row["name"], *kind_of(row)): row for row in rows_of(results)}.values())
    made = dict(section(key, [row for row in rows if kind_of(row) == key]) for key in dict.fromkeys(map(kind_of, rows)))
    before = sections_of(output.read_text()) if output.exists() else {}
    output.write_text(
        "\n\n".join([INTRODUCTION, *(made | {k: v for k, v in before.items() if k not in made}).values()]) + "\n"
    )


def section(key: tuple[Any, ...], rows: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The heading and the text of a setting's section."""
    training, batch, dtype, through, engines = key
    kind = "Training steps" if training else "Inference"
    by = "" if through == THROUGH[0] else ', `torch.compile(backend="burn")`'
    beside = "" if engines == Setting.modes else f", beside {', '.join(engines)}"
    heading = f"{kind}, batch {batch}, {dtype}{by}{beside}"
    ratios = [r for row in rows if (r := ratio(row)) is not None]
    devices, versions = (", ".join(sorted({row[key] for row in rows if key in row})) for key in ("device", "torch"))
    below = sum(r < 1 for r in ratios)
    lines = [
        f"{HEADING}{heading}",
        f"{datetime.date.today()}, {devices}, PyTorch {versions}. {len(ratios)} models: geometric mean {mean(ratios):.2f}, "
        f"{below} below 1. {len(rows) - len(ratios)} without a ratio.",
        "\n".join(table(rows)),
    ]
    failed = [f"- {row['list']} {row['name']}: {reason(row)}" for row in rows if ratio(row) is None]
    if failed:
        lines.append("Without a ratio:\n\n" + "\n".join(failed))
    return heading, "\n\n".join(lines)


def reason(row: Mapping[str, Any]) -> str:
    if is_wrong(row):
        cause = (
            ". The program of torch.export also differs from eager when torch runs it"
            if row.get("export differs")
            else ""
        )
        if not row.get("differs later", 0) <= WRONG_LATER:
            return f"its loss after some steps differs from eager's by {row['differs later']:.2g}"
        return f"differs from eager by {row['differs']:.2g} of the largest number{cause}"
    if "failed" in row:
        return short(row["failed"])  # a traceback
    return " ".join(row.get("burn failed", "not timed").split())[:200]
