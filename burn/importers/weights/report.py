"""`Report`: what loading weights did, tensor by tensor, for people (`str`) and for programs (`json`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from burn.dialect.types import TensorType
from burn.errors import ModelError, Problem

MAX_ROWS = 200  # of one section, in the text


@dataclass(frozen=True)
class Applied:
    """A parameter that got its elements. sources: the tensors they came from. how: what was done to them."""

    name: str
    type: str
    sources: tuple[str, ...]
    how: str = ""


@dataclass(frozen=True)
class Missing:
    """A parameter for which there is no tensor. looked_for: the names that it might have had."""

    name: str
    type: str
    looked_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unused:
    """A tensor that no parameter takes. source: what it is called in the file, before names were changed."""

    name: str
    type: str
    source: str


@dataclass(frozen=True)
class Mismatched:
    """A parameter whose tensor does not fit it. expected: what the tensor `source` would have to be."""

    name: str
    source: str
    expected: str
    given: str
    hint: str = ""


@dataclass(frozen=True)
class Skipped:
    """A tensor or a parameter that was left alone on purpose."""

    name: str
    why: str


@dataclass
class Report:
    """The outcome for every parameter of a module and every tensor of a checkpoint.

    ignored: what else was in the file, which is no tensor. notes: decisions worth knowing. hints: what may help where
    something is missing."""

    module: str
    source: str
    applied: list[Applied] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    unused: list[Unused] = field(default_factory=list)
    mismatched: list[Mismatched] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """True if every parameter has its tensor and every tensor its parameter, except for deliberate skips."""
        return not (self.missing or self.unused or self.mismatched)

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "complete": self.complete}

    def problems(self, partial: bool) -> list[Problem]:
        """Problems that prevent loading: with `partial` only mismatches."""
        found = [Problem(f"'{m.name}' {self._misfit(m)}", hint=m.hint) for m in self.mismatched]
        if partial:
            return found
        for m in self.missing:
            other = [n for n in m.looked_for if n != m.name]
            text = f"'{m.name}' is missing: it must be {m.type}"
            found.append(Problem(text, hint=f"or {' or '.join(other)}" if other else ""))
        for u in self.unused:
            called = f"it is called '{u.source}' in the file" if u.source != u.name else ""
            found.append(Problem(f"there is no parameter '{u.name}' for its {u.type}", hint=called))
        return found

    @staticmethod
    def _misfit(entry: Mismatched) -> str:
        source = "" if entry.source == entry.name else f" (from '{entry.source}')"
        return f"does not fit{source}: it must be {entry.expected}, not {entry.given}"

    def __str__(self) -> str:
        counts = ", ".join(f"{len(rows)} {title}" for title, rows in self._sections() if rows or title == "applied")
        lines = [f"{self.source} -> {self.module}: {counts}"]
        for title, rows in self._sections():
            if rows:
                lines.append(f"{title}:")
                width = max(len(name) for name, _ in rows[:MAX_ROWS])
                lines += [f"  {name:{width}}  {text}".rstrip() for name, text in rows[:MAX_ROWS]]
                if len(rows) > MAX_ROWS:
                    lines.append(f"  ... and {len(rows) - MAX_ROWS} more")
        return "\n".join(lines + [f"note: {n}" for n in self.notes] + [f"hint: {h}" for h in self.hints])

    def _sections(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        yield "applied", [(a.name, f"{a.type}{self._origin(a)}") for a in self.applied]
        yield "missing", [(m.name, m.type) for m in self.missing]
        yield "unused", [(u.name, u.type + ("" if u.source == u.name else f" from {u.source}")) for u in self.unused]
        yield "mismatched", [(m.name, self._misfit(m)) for m in self.mismatched]
        yield "skipped", [(s.name, s.why) for s in self.skipped]
        yield "ignored", list(self.ignored.items())

    @staticmethod
    def _origin(entry: Applied) -> str:
        source = "" if entry.sources == (entry.name,) else f" from {', '.join(entry.sources)}"
        return source + (f" ({entry.how})" if entry.how else "")


class LoadError(ModelError):
    """Weights that do not fit a module. `report` has all of it; nothing was loaded."""

    def __init__(self, summary: str, report: Report, problems: list[Problem]) -> None:
        super().__init__(summary, [*problems, *(Problem(f"hint: {h}") for h in report.hints)])
        self.report = report


def spelled(dtype: str, shape: tuple[int, ...]) -> str:
    """An element type and a shape as they are written everywhere: float32[2, 3]."""
    return str(TensorType(dtype, shape))
