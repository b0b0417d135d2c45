"""`burn-run --report`: a profile as one page that needs nothing else: kernels and their code, time by layer, a roofline, memory,
the graph.

The page is report.html, with its data as JSON in it. Enter at `page`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burn.runtime import sizes

if TYPE_CHECKING:
    from burn.bench.roofline import Roofline
    from burn.dialect.program import SourceModule
    from burn.runtime.artefact import Artefact
    from burn.runtime.profile import Profile, ProfileRow

PAGE = Path(__file__).with_suffix(".html")
PLACEHOLDER = "/*DATA*/"
MOST_STEPS = 2000
"""Of the memory's curve: more would be finer than a screen."""


def page(
    model: str,
    artefact: Artefact,
    texts: Sequence[str],
    profile: Profile,
    fixed: Mapping[str, int],
    roof: Roofline | None,
    warnings: Sequence[str] = (),
    checks: Mapping[str, Any] | None = None,
    modules: Mapping[str, Sequence[SourceModule]] | None = None,
) -> str:
    """texts: the listing of each kernel. fixed: sizes that the program was compiled for. warnings: of `profile.profiled`. checks:
    the outputs compared with another runtime, as `burn-run --verify` reports them. modules: of each source node, if known."""
    ran = {id(row.kernel): row for row in profile.rows}
    kernels = []
    for info, text in zip(artefact.kernels, texts, strict=True):
        row = ran.get(id(info))
        kernels.append(
            {
                "name": info.name,
                "kind": info.kind,
                "calls": row.calls if row else 0,
                "seconds": row.seconds if row else 0.0,
                "least": row.least if row else 0.0,
                "most": row.most if row else 0.0,
                "gain": _gain(row, roof),
                "layer": layer(info.sources, modules or {}),
                "share": row.seconds / profile.seconds if row and profile.seconds else 0.0,
                "flops": row.flops if row else None,
                "bytes": row.bytes if row else None,
                "of_peak": roof.share(row) if roof and row else None,
                "nodes": info.sources,
                "reads": info.reads,
                "text": text,
            }
        )
    memory = _memory(artefact, profile.symbols)
    facts = [
        ("sizes", ", ".join(f"{name} = {size}" for name, size in {**fixed, **profile.symbols}.items())),
        ("intermediate results", f"{max(memory, default=0) / 1e6:.1f} MB at most"),
        ("weights and constants", f"{sum(constant.bytes for constant in artefact.constants) / 1e6:.1f} MB"),
        ("compiled for", ", ".join((artefact.target.triple, artefact.target.architecture)).rstrip(", ")),
    ]
    found: dict[str, Any] = {
        "model": model,
        "facts": facts,
        "seconds": profile.seconds,
        "gain": sum(kernel["gain"] or 0.0 for kernel in kernels) if roof else None,
        "warnings": list(warnings),
        "run": None,
        "checks": None,
        "kernels": kernels,
        "order": sorted(range(len(kernels)), key=lambda number: -kernels[number]["seconds"]),
        "memory": memory,
        "roofline": None,
    }
    if roof is not None:
        facts.append(("threads", str(roof.threads)))
        levels = [{"name": level.name, "rate": level.rate} for level in roof.levels]
        found["roofline"] = {"flops": roof.arithmetic, "levels": levels}
    if profile.runs:
        found["run"] = {
            "seconds": profile.run_seconds,
            "least": min(profile.runs),
            "most": max(profile.runs),
            "count": len(profile.runs),
        }
    if checks is not None:
        rows = [
            {
                "name": row["name"],
                "same": bool(row["same"]),
                "largest": _finite(row.get("absolute")),
                "relative": _finite(row.get("relative")),
            }
            for row in checks["outputs"]
        ]
        found["checks"] = {"with": checks["with"], "outputs": rows}
    text = json.dumps(found, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return PAGE.read_text(encoding="utf-8").replace(PLACEHOLDER, text)


def layer(sources: Sequence[str], modules: Mapping[str, Sequence[SourceModule]]) -> str:
    """The layer that a kernel belongs to: "encoder.layer.0" of its first source node's path, which is the path up to the first
    number. It is the first part of a path without a number, and "" for a name that is no path."""
    for source in sources:
        known = modules.get(source)
        if known is not None:
            path = known[-1].path if known else ""
        else:
            path = re.sub(r"/", ".", source.strip("/")).rpartition(".")[0]
        parts: list[str] = []
        for part in filter(None, path.split(".")):
            if len(parts) > 1 and part == parts[0]:
                continue  # "/layer/layer.0": the list is named again before its element
            parts.append(part)
            if part.isdigit():
                break
        else:
            parts = parts[:1]
        if parts:
            return ".".join(dict.fromkeys(parts))
    return ""


def _gain(row: ProfileRow | None, roof: Roofline | None) -> float | None:
    """The time that a kernel takes beyond what the machine's peak allows; 0 above the peak."""
    least = roof.seconds(row) if row is not None and roof is not None else None
    return None if row is None or least is None else max(0.0, row.seconds - least)


def _finite(number: Any) -> float | None:
    """JSON has no infinity."""
    return float(number) if number is not None and math.isfinite(number) else None


def _memory(artefact: Artefact, symbols: Mapping[str, int]) -> list[int]:
    """Bytes of the buffers that live, step by step; those whose size only the run knew are left out."""
    change: dict[int, int] = {}
    for (first, last), text in zip(artefact.live_ranges, artefact.buffers, strict=True):
        try:
            size = max(0, sizes.parse(text).evaluate(symbols))
        except (KeyError, ZeroDivisionError):
            continue
        change[first] = change.get(first, 0) + size
        change[last + 1] = change.get(last + 1, 0) - size
    if not change:
        return []
    live, curve = 0, []
    for step in range(max(change)):
        live += change.get(step, 0)
        curve.append(live)
    width = math.ceil(len(curve) / MOST_STEPS)
    return [max(curve[at : at + width]) for at in range(0, len(curve), width)]
