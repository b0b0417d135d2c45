"""Error handling that importers share: a graph is built call by call, and its problems are reported together.

A call that cannot be built leaves its results `FAILED`, and adds a problem. Calls that depend on those are skipped (`Skipped`).
At the end `Problems.raise_any` raises one ModelError that lists every problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from burn.dialect.mlir import ir
from burn.errors import BurnError, ModelError, Problem

SHOWN = 3
"""Uses of one operator, or problems of one branch, that a message names; it counts the others."""


class FAILED:
    """Stands for a value that could not be built; its problem has been added."""


class Skipped(Exception):
    """A call depends on a value that could not be built."""


class Site(Protocol):
    """A call of the imported graph, as error messages name it."""

    def located(self, problem: Problem) -> Problem:
        """The problem with the call's name, if it does not have that already."""
        ...


class Problems:
    """The problems of one import, in the order in which they were found."""

    def __init__(self, summary: str) -> None:
        self.summary = summary
        self.found: list[Problem] = []
        self.cause: Exception | None = None  # the first error that no builder raises on purpose

    def __bool__(self) -> bool:
        return bool(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def add(self, problem: Problem) -> None:
        self.found.append(problem)

    def add_error(self, error: BurnError, site: Site | None = None) -> None:
        """Adds an error's problems; those of ops get the name of the call."""
        for problem in error.problems or (Problem(error.summary),):
            self.add(problem if site is None else site.located(problem))

    @contextmanager
    def building(self, site: Site, refusals: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Runs a builder: an exception becomes a problem of its call, then raises Skipped. refusals: exceptions whose text is the
        problem."""
        try:
            yield
        except Skipped:
            raise
        except BurnError as error:
            self.add_error(error, site)
            raise Skipped from None
        except refusals as error:
            self.add(site.located(Problem(str(error))))
            raise Skipped from None
        except ir.MLIRError as error:  # a size of 2^63 or more
            reason = str(error).strip().splitlines()[-1].removeprefix("error: ")
            self.add(site.located(Problem(f"a result has a type that cannot be represented: {reason}")))
            raise Skipped from error
        except (
            Exception
        ) as error:  # a case that the builder's author did not think of; the other calls are still checked
            self.cause = self.cause or error
            self.add(site.located(Problem(f"could not be imported: {type(error).__name__}: {error}")))
            raise Skipped from error

    def raise_any(self) -> None:
        """Raises ModelError if there are problems, each of them once."""
        if self.found:
            raise ModelError(self.summary, dict.fromkeys(self.found)) from self.cause
