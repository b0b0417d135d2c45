"""The results as tables: counts by package and way, and failures with their reasons. Enter at `table` and `update`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "dev" / "architectures.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
SHOWN = 160

Results = Mapping[tuple[str, str], dict[str, Any]]


def table(results: Results) -> str:
    """Markdown: for each package and way how many agree of those that torch itself can do; then what fails."""
    made = {name for (name, _), r in results.items() if r["state"] != "unmade"}
    ways = list(dict.fromkeys(way for _, way in results if way))
    lines = [f"| package | architectures | {' | '.join(ways)} |", "|---" * (len(ways) + 2) + "|"]
    packages = sorted({name.partition("/")[0] for name in made})
    for package in [*packages, "all"]:
        inside = {n for n in made if package in (n.partition("/")[0], "all")}
        lines.append(f"| {package} | {len(inside)} | {' | '.join(_cell(results, inside, way) for way in ways)} |")
    exports = Counter(
        r["detail"].partition(", ")[2]
        for (_, way), r in results.items()
        if way == "burn.load" and r["state"] == "agrees"
    )
    if any(exports):
        lines += [
            "",
            f"Files that agree, by exporter: {', '.join(f'{how} {n}' for how, n in exports.most_common() if how)}.",
        ]
    lines += ["", "What torch does and burn does not:", ""]
    lines += _reasons(results, "ours")
    unmade = Counter(name.partition("/")[0] for (name, _), r in results.items() if r["state"] == "unmade")
    told = ", ".join(f"{n} of {package}" for package, n in sorted(unmade.items()))
    lines += ["", f"No small model was found for {told}." if told else "Each name drawn became a model."]
    return "\n".join(lines)


def _cell(results: Results, names: set[str], way: str) -> str:
    states = Counter(r["state"] for (name, w), r in results.items() if w == way and name in names)
    possible = states["agrees"] + states["ours"]
    if not possible:
        return ""
    share = f"{states['agrees']} of {possible} ({100 * states['agrees'] / possible:.1f} %)"
    theirs = states["torch's"]
    return share + (f"; torch fails in {theirs}" if theirs else "")


def _reasons(results: Results, state: str) -> list[str]:
    groups: dict[str, list[str]] = {}
    for (name, way), result in sorted(results.items()):
        if result["state"] == state:
            reason = result["detail"][:SHOWN].replace("|", "/").replace("<", "(").replace(">", ")")
            groups.setdefault(reason, []).append(f"{name} ({way})")
    rows = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [f"- {', '.join(names)}: {reason}" for reason, names in rows]


def update(results: Results) -> None:
    """Writes the table into the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text("\n".join([before + BEGIN, table(results), END + rest.partition(END)[2]]))
