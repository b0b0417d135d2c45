"""`burn-run --report`: a profile as one page that needs nothing else: kernels and their code, a roofline, memory, the graph.

The page is report.html; what it shows is put into it as JSON. Enter at `page`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burn.runtime import sizes

if TYPE_CHECKING:
    from burn.bench.roofline import Roofline
    from burn.runtime.artefact import Artefact
    from burn.runtime.profile import Profile

PAGE = Path(__file__).with_suffix(".html")
PLACE = "/*DATA*/"
MOST_STEPS = 2000
"""Of the memory's curve: more would be finer than a screen."""


def page(
    model: str,
    artefact: Artefact,
    texts: Sequence[str],
    profile: Profile,
    fixed: Mapping[str, int],
    roof: Roofline | None,
) -> str:
    """texts: what each kernel computes; fixed: sizes that the program was compiled for."""
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
        ("time in kernels", f"{profile.seconds * 1e3:.3f} ms"),
        ("kernels", str(len(kernels))),
        ("sizes", ", ".join(f"{name} = {size}" for name, size in {**fixed, **profile.symbols}.items())),
        ("intermediate results", f"{max(memory, default=0) / 1e6:.1f} MB at most"),
        ("weights and constants", f"{sum(constant.bytes for constant in artefact.constants) / 1e6:.1f} MB"),
        ("compiled for", ", ".join((artefact.target.triple, artefact.target.architecture)).rstrip(", ")),
    ]
    found: dict[str, Any] = {
        "model": model,
        "facts": facts,
        "kernels": kernels,
        "order": sorted(range(len(kernels)), key=lambda number: -kernels[number]["seconds"]),
        "memory": memory,
        "roofline": None,
    }
    if roof is not None:
        facts.append(("threads", str(roof.threads)))
        levels = [{"name": level.name, "rate": level.rate} for level in roof.levels]
        found["roofline"] = {"flops": roof.arithmetic, "levels": levels}
    text = json.dumps(found, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return PAGE.read_text(encoding="utf-8").replace(PLACE, text)


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
