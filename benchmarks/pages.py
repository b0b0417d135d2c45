"""Pages of tables, one for a target and a number of threads, ordered by the features of the target: cpu.md and int8.md."""

from __future__ import annotations

from collections.abc import Sequence

from burn.codegen.cpu.target import TARGETS

HEADING = "## "

Tables = dict[tuple[str, int], str]
"""By target (with a precision, "amx bf16") and number of threads: Markdown, its heading included."""


def heading(target: str, threads: int) -> str:
    return f"{HEADING}{target}, {threads} thread{'s' * (threads > 1)}"


def tables_of(page: str) -> Tables:
    """Those that a page has."""
    found: Tables = {}
    for part in f"\n{page}".split(f"\n{HEADING}")[1:]:
        target, threads = part.splitlines()[0].split(", ")
        found[target, int(threads.partition(" ")[0])] = f"{HEADING}{part.strip()}"
    return found


def page_of(introduction: Sequence[str], tables: Tables, before: str) -> str:
    """With the tables of the page `before` that `tables` does not have."""
    found = sorted((tables_of(before) | tables).items(), key=lambda item: _order(*item[0]))
    return "\n\n".join([*introduction, *(text for _, text in found)])


def _order(section: str, threads: int) -> tuple[int, str, int]:
    target, _, precision = section.partition(" ")
    return list(TARGETS).index(target), precision, -threads
