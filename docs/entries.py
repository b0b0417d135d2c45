"""Reference entries as MyST directives of Sphinx's Python domain. Enter at `entry` and `module`."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from surface import Entry, members, signature_of

SPAN = re.compile(r"(`+)(?:.+?)\1")
ESCAPED = re.compile(r"([*_<>\[\]{}$~])")


def module(home: ModuleType) -> list[str]:
    """A module's docstring as lines of MyST."""
    return [*markdown((home.__doc__ or "").strip()), ""]


def entry(public: Entry, after: str = "") -> list[str]:
    """The directive of one public name: signature, docstring, then `after`; for a class its methods and properties."""
    value, kind = public.value, public.kind
    signature = "" if kind == "data" else signature_of(value)
    if kind in ("class", "exception"):
        signature = signature.replace(" -> None", "")
    if kind == "exception":
        signature = ""
    lines = [f"::::{{py:{kind}}} {public.name}{signature}", "", *markdown(public.documentation), ""]
    if after:
        lines += [after, ""]
    if kind == "class":
        lines += [line for name, member in members(value).items() for line in method(name, member)]
    return [*lines, "::::", ""]


def method(name: str, member: Any) -> list[str]:
    """The directive of a class's method or property that has a docstring."""
    text = inspect.getdoc(member)
    if not text:
        return []
    if isinstance(member, property) or type(member).__name__ == "cached_property":
        return [f":::{{py:property}} {name}", "", *markdown(text), "", ":::", ""]
    options = [f":{type(member).__name__}:"] if isinstance(member, (classmethod, staticmethod)) else []
    function = getattr(member, "__func__", member)
    signature = signature_of(function)
    if not isinstance(member, staticmethod):
        signature = re.sub(r"^\((?:self|cls)(?:: \w+)?(?:, )?", "(", signature)
    signature = signature.removeprefix("(/, ") if signature.startswith("(/, ") else signature.replace("(/)", "()", 1)
    signature = signature if signature.startswith("(") else f"({signature}"
    return [f":::{{py:method}} {name}{signature}", *options, "", *markdown(text), "", ":::", ""]


def markdown(text: str) -> Iterator[str]:
    """A docstring as MyST: code spans, lists and indented code stay, other characters mean themselves."""
    lines, at = text.expandtabs().splitlines(), 0
    while at < len(lines):
        if _starts_code(lines, at):
            end = at
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith("    ")):
                end += 1
            yield from _code(lines[at:end])
            at = end
        else:
            paragraph = [lines[at]]
            while lines[at].strip() and at + 1 < len(lines) and lines[at + 1].strip():
                at += 1
                paragraph.append(lines[at])
            yield from _escaped("\n".join(paragraph)).splitlines() or [""]
            at += 1


def _starts_code(lines: list[str], at: int) -> bool:
    line, before = lines[at], lines[at - 1] if at else ""
    return line.startswith("    ") and not before.strip()


def _code(lines: list[str]) -> Iterator[str]:
    code = textwrap.dedent("\n".join(lines)).strip("\n")
    try:
        compile(code, "", "exec")
        language = "python"
    except (SyntaxError, ValueError):
        language = "text"
    yield from [f"```{language}", *code.splitlines(), "```", ""]


def _escaped(paragraph: str) -> str:
    """Markdown's characters outside of code spans, and of markers of lists."""
    done, at = [], 0
    for span in SPAN.finditer(paragraph.replace("\n", "\0")):
        done += [ESCAPED.sub(r"\\\1", paragraph[at : span.start()]), paragraph[span.start() : span.end()]]
        at = span.end()
    return "".join([*done, ESCAPED.sub(r"\\\1", paragraph[at:])])
