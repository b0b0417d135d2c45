"""The errors users meet. Every one lists all the problems found, not only the first.

`BurnError` is what the command line prints (exit code 1) and what the Python API raises; its subclasses say at which stage.
They are Python's own kinds too, so that `except ValueError` and `except IndexError` catch what they are written for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from typing_extensions import Self


def printable(text: str) -> str:
    """Text that any stream takes: a file's names may hold what is no character."""
    return text.encode("utf-8", "backslashreplace").decode()


def shown(text: str) -> str:
    """Text for people: characters that steer a terminal or reverse its writing are spelled out ("\\x1b"), as a file's names may
    hold them. Lines and tabulators stay."""
    text = printable(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def near(name: str, names: Iterable[str]) -> str:
    """A hint for a name that is none of those there are: the one that may have been meant, or all."""
    import difflib

    known = list(names)
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known) or 'none'}"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it is and what it is, with a hint when there is something to do about it."""

    message: str
    node: str = ""  # the node's name in the source model
    op: str = ""  # operator, e.g. "Conv"
    domain: str = ""  # operator domain, "" for ai.onnx
    opset: int | None = None
    attribute: str = ""
    hint: str = ""
    tensor: str = ""  # the tensor's name in a file of weights

    def __str__(self) -> str:
        where = []
        if self.op:
            opset = f" (opset {self.opset})" if self.opset is not None else ""
            where.append(f"{self.domain + '::' if self.domain else ''}{self.op}{opset}")
        if self.node:
            node = self.node.replace("\n", "\\n")  # a name is no line of its own
            where.append(f"node '{node}'")
        if self.tensor:
            tensor = self.tensor.replace("\n", "\\n")
            where.append(f"tensor '{tensor}'")
        if self.attribute:
            where.append(f"attribute '{self.attribute}'")
        text = f"{', '.join(where)}: {self.message}" if where else self.message
        return shown(f"{text} ({self.hint})" if self.hint else text)


class BurnError(Exception):
    """Raised with one or more problems; `str()` lists them all under a one-line summary."""

    def __init__(self, summary: str, problems: Iterable[Problem | str] = ()) -> None:
        self.summary = summary
        self.problems = tuple(p if isinstance(p, Problem) else Problem(p) for p in problems)
        super().__init__(summary)

    def __str__(self) -> str:
        first = self.problems[0] if len(self.problems) == 1 else None
        summary = shown(self.summary)
        if (
            first is not None
            and self.summary.endswith(first.message)
            and not (first.node or first.tensor or first.hint)
        ):
            return summary  # the one problem says nothing more
        return "\n".join([summary, *(f"  - {problem}" for problem in self.problems)])

    def renamed(self, name: Callable[[str], str]) -> Self:
        """The same error with other names for the nodes in it."""
        return type(self)(self.summary, [replace(p, node=name(p.node)) if p.node else p for p in self.problems])


class ModelError(BurnError):
    """The model file is malformed, or uses something that is not supported."""


class TypeMismatch(BurnError, TypeError, ValueError):
    """An op was given operands or attributes that it does not accept: of another type, or of values that do not fit."""


class WrongArgument(TypeMismatch):
    """An argument has a wrong type of Python's."""


class OutOfRange(TypeMismatch, IndexError):
    """An index names what is not there."""


class CompileError(BurnError):
    """The compiler could not turn a valid program into code."""


class InputError(BurnError, TypeError, ValueError):
    """A call's inputs do not fit the executable's signature."""


class RunError(BurnError):
    """The compiled program reported an error while it ran (an index out of range, memory exhausted ...)."""


class BudgetExceeded(BurnError):
    """A load, a compilation or a run would take more bytes or seconds than it was given."""


class RunCancelled(RunError):
    """The run was ended from another thread."""


class DeviceError(BurnError, RuntimeError):
    """A device is not there, or its driver cannot be used."""


class DistributedError(RunError):
    """A process of a training on several hosts did not come up, ended, or does not answer; or the processes disagree."""


class DataError(BurnError, ValueError):
    """A row of a dataset cannot be read, or rows do not make a batch."""


class IndexRunError(RunError, IndexError):
    """An index that the data gave is out of range."""


class MemoryRunError(RunError, MemoryError):
    """The program asked for more memory than there is."""


class MemoryBudgetError(MemoryRunError, BudgetExceeded):
    """The run would take more bytes than its limit."""


class TimeBudgetError(RunError, BudgetExceeded, TimeoutError):
    """The run takes longer than its limit."""


class DivisionRunError(RunError, ZeroDivisionError):
    """Sizes were divided by zero."""


def unreachable(value: NoReturn) -> AssertionError:
    """Raised behind a `match` that names every case: the type checker sees when one is missing."""
    return AssertionError(f"{type(value).__name__} is not handled")
