"""Profiles in commands: every kernel's time, and its fraction of the roofline."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from burn.bench.load import Others
    from burn.bench.roofline import Roofline
    from burn.runtime.profile import Profile

COLUMNS = ("kernel", "us", "least", "most", "share", "GFLOP/s", "GB/s", "of peak", "nodes")
_ABOVE = 1.05  # of the measured peak
NODES = 3  # that are named in a table


def roofline() -> Roofline:
    """Measured now."""
    from burn.bench.roofline import measure

    return measure()


def profiled(profile: Profile, roof: Roofline | None, others: Others | None = None) -> dict[str, Any]:
    """For a report: `profile`, a row for each kernel, slow ones first; `profiled`, the runs; `roofline`, if there is one to
    compare with; and `warnings`. others: what else the machine did meanwhile."""
    rows = []
    for row in sorted(profile.rows, key=lambda r: -r.seconds):
        rows.append(
            {
                "kernel": row.kernel.name,
                "kind": row.kernel.kind,
                "calls": row.calls,
                "seconds": row.seconds,
                "least": row.least,
                "most": row.most,
                "share": row.seconds / profile.seconds if profile.seconds else 0.0,
                "gflops": row.gflops_per_second or None,
                "bytes": row.bytes,
                "of_peak": None if roof is None else roof.share(row),
                "nodes": list(row.kernel.sources),
            }
        )
    runs = {"count": profile.inferences, "seconds": profile.run_seconds, "kernels": profile.seconds}
    runs |= {"least": min(profile.runs, default=0.0), "most": max(profile.runs, default=0.0)}
    found: dict[str, Any] = {"profile": rows, "profiled": runs, "warnings": []}
    if others is not None and others.disturb:
        cores = f"{others.cores:.1f} of {os.cpu_count()} cores"
        found["warnings"].append(
            f"other programs kept {cores} busy meanwhile: times and peaks are those of a busy machine"
        )
    if any(row["of_peak"] is not None and row["of_peak"] > _ABOVE for row in rows):
        found["warnings"].append(
            "a kernel is above the measured peak, which was measured too low: the machine was busy"
        )
    if roof is not None:
        found["roofline"] = {
            "threads": roof.threads,
            "gflops": {name: rate / 1e9 for name, rate in roof.arithmetic.items()},
            "gigabytes": {level.name: level.rate / 1e9 for level in roof.levels},
        }
    return found


def show_profile(out: Console, report: dict[str, Any]) -> None:
    """Prints the result of `profiled`."""
    from rich.table import Table

    roof = report.get("roofline")
    columns = [column for column in COLUMNS if roof or column != "of peak"]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        left = column in ("kernel", "nodes")
        table.add_column(column, justify="left" if left else "right", no_wrap=column != "nodes")
    for row in report["profile"]:
        moved = f"{row['bytes'] / row['seconds'] / 1e9:.1f}" if row["bytes"] and row["seconds"] else ""
        cells = {
            "kernel": row["kernel"],
            "us": f"{1e6 * row['seconds']:.1f}",
            "least": f"{1e6 * row['least']:.1f}",
            "most": f"{1e6 * row['most']:.1f}",
            "share": f"{row['share']:.1%}",
            "GFLOP/s": f"{row['gflops']:.1f}" if row["gflops"] else "",
            "GB/s": moved,
            "of peak": "" if row["of_peak"] is None else f"{row['of_peak']:.0%}",
            "nodes": ", ".join(row["nodes"][:NODES]) + (" ..." if len(row["nodes"]) > NODES else ""),
        }
        table.add_row(*(cells[column] for column in columns))
    out.print(table)
    runs = report["profiled"]
    out.print(
        f"kernels take {1e3 * runs['kernels']:.3f} ms of a run's {1e3 * runs['seconds']:.3f} "
        f"({1e3 * runs['least']:.3f} to {1e3 * runs['most']:.3f}); medians of {runs['count']} runs that were profiled"
    )
    if roof:
        ways = ", ".join(f"{rate:.0f} GFLOP/s by {name}" for name, rate in roof["gflops"].items())
        levels = ", ".join(f"{rate:.0f} GB/s from {name}" for name, rate in roof["gigabytes"].items())
        threads = f"{roof['threads']} thread{'s' * (roof['threads'] != 1)}"
        out.print(f"peak, measured on {threads}: {ways}; {levels}", markup=False)
    for warning in report["warnings"]:
        out.print(f"warning: {warning}", markup=False)
