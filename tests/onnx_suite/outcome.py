"""Runs one case on an engine and says how it went."""

from __future__ import annotations

import re
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from burn.errors import BurnError

from .cases import Case
from .compare import Mismatch, compare
from .engines import ENGINES, Run


@dataclass
class Outcome:
    """How a case went. `category` is empty for a pass; else what failing.txt records as the reason.

    - refused: a BurnError while it was compiled.
    - error: another exception there (a bug).
    - run: any exception while it ran.
    - count, type, shape, value: an output is wrong.
    - crash, timeout: the process died or did not answer.
    """

    name: str
    suite: str
    family: str
    category: str = ""
    messages: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.category


def run_case(task: tuple[str, Case]) -> Outcome:
    """Compile the case's model on the engine named, run it on every data set and compare."""
    engine, case = task
    outcome = Outcome(case.name, case.suite, case.family)
    start = time.perf_counter()
    stage = "prepare"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = ENGINES[engine](case.model)
            stage = "run"
            verify(case, run)
    except Mismatch as error:
        outcome.category, outcome.messages = error.kind, [str(error)]
    except BurnError as error:
        outcome.category = "refused" if stage == "prepare" else "run"
        outcome.messages = [str(problem) for problem in error.problems] or [error.summary]
    except Exception as error:
        outcome.category = "error" if stage == "prepare" else "run"
        outcome.messages = [_describe(error)]
    outcome.seconds = time.perf_counter() - start
    return outcome


def verify(case: Case, run: Run | None) -> None:
    """Raises Mismatch, or what the engine raises; nothing is run where there is nothing to run."""
    if run is not None:
        for inputs, expected in case.data_sets:
            compare(expected, list(run(inputs)), case.rtol, case.atol)


def _describe(error: Exception) -> str:
    """An exception's type, first line and the innermost line of burn that it came through."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if "/burn/" in frame.filename:
            where = f" @{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__}: {lines[0] if lines else ''}{where}"


def reason(message: str) -> str:
    """A message without what differs from case to case, to group by."""
    message = re.sub(r"node '[^']*'(, |: )?", "", message)
    message = re.sub(r" ?\(opset \d+\)", "", message)
    message = re.sub(r"; got \[.*", "", message)
    message = re.sub(r"\[[^\]\[]*\d[^\]\[.:]*\]", "[...]", message)
    message = re.sub(r"(?<![\w.:])-?\d[\d.]*(e[+-]?\d+)?%?(?![\w])", "N", message)
    return message.strip()[:200]
