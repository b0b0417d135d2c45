"""The kernels of a profile that lose the most time to their rooflines (burn/bench/roofline.py)."""

from __future__ import annotations

from typing import Any

MOST = 8
"""Kernels that a row has."""


def kernels_of(profile: Any, least: bool = False) -> dict[str, Any]:
    """The share of the roofline, and the kernels that lose the most time to theirs. least: by the least time of each kernel
    instead of the median, which other processes lengthen on a busy machine. Rates are those of the runtime's threads."""
    from burn.bench.roofline import measure

    roof = measure()
    rows = [(row, row.least if least else row.seconds, roof.seconds(row)) for row in profile.rows if row.seconds]
    total = sum(seconds for _, seconds, _ in rows)
    kernels = [
        {"kernel": row.kernel.name, "of_time": seconds / total, "of_roofline": bound / seconds,
         "lost": (seconds - bound) / total, "nodes": list(row.kernel.sources)[:3]}
        for row, seconds, bound in rows if bound is not None
    ]  # fmt: skip
    kernels.sort(key=lambda kernel: -kernel["lost"])
    return {"roofline": sum(bound or 0.0 for _, _, bound in rows) / total, "kernels": kernels[:MOST]}
