"""Comparisons of sizes that a module makes while torch traces it. Enter at `listening`.

torch assumes that a varying size is larger than 1. A comparison that this decides (`x.shape[0] == 1`) leaves no guard: the
program is the one for larger sizes, and silently wrong for a size of 1. So this module records the comparisons of torch's
symbolic integers, with their operands before torch's simplification. Only the module's own comparisons count. Those inside
torch's operators, such as whether a size of 1 broadcasts, are handled by the ops that burn builds.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx.experimental import symbolic_shapes

from burn.importers.torch.sizes import expression_of

RELATIONS: dict[str, tuple[type, type]] = {
    "__eq__": (sympy.Eq, sympy.Ne),
    "__ne__": (sympy.Ne, sympy.Eq),
    "__lt__": (sympy.Lt, sympy.Ge),
    "__le__": (sympy.Le, sympy.Gt),
    "__gt__": (sympy.Gt, sympy.Le),
    "__ge__": (sympy.Ge, sympy.Lt),
}
"""Python's comparisons, what they say of two sizes, and what it is when they do not."""
MARK = "_burn_question"
_patched = threading.RLock()


@dataclass(frozen=True)
class Answer:
    """`relation` held between two sizes, expressions over torch's symbols, when the module asked."""

    relation: type
    left: Any
    right: Any


@contextmanager
def listening() -> Iterator[list[Answer]]:
    """Gives the list that the answers within are put into, in the order of the questions."""
    heard: dict[Answer, None] = {}
    answers: list[Answer] = []
    with _patched:
        _leave_out_this_file()
        asked = {name: getattr(torch.SymInt, name) for name in RELATIONS}
        decided = torch.SymBool.__bool__
        for name, method in asked.items():
            setattr(torch.SymInt, name, _marking(name, method))
        torch.SymBool.__bool__ = _noting(decided, heard)  # type: ignore[method-assign]
        try:
            yield answers
        finally:
            torch.SymBool.__bool__ = decided  # type: ignore[method-assign]
            for name, method in asked.items():
                setattr(torch.SymInt, name, method)
            answers += heard


def _leave_out_this_file() -> None:
    """Takes this file out of the ones that torch's errors name as the cause, so that they name the module's line."""
    files = getattr(symbolic_shapes, "uninteresting_files", set)()
    if isinstance(files, set):
        files.add(__file__)


def _marking(name: str, method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A comparison whose result records its operands."""

    def compare(self: Any, other: Any) -> Any:
        result = method(self, other)
        if isinstance(result, torch.SymBool) and isinstance(other, (int, torch.SymInt)):
            setattr(result, MARK, (name, expression_of(self), expression_of(other)))
        return result

    return compare


def _noting(method: Callable[[Any], bool], heard: dict[Answer, None]) -> Callable[[Any], bool]:
    """The decision, recorded if the module's code makes it."""

    def decide(self: Any) -> bool:
        result = method(self)
        if (question := getattr(self, MARK, None)) is not None and _of_the_module(sys._getframe(1)):
            name, left, right = question
            heard[Answer(RELATIONS[name][not result], left, right)] = None
        return result

    return decide


def _of_the_module(frame: Any) -> bool:
    """True if the comparison is in a line of the module, not of torch. Modules of torch.nn also count."""
    while (name := frame.f_globals.get("__name__")) == "torch" and frame.f_back is not None:
        frame = frame.f_back  # `if size % 2` goes through SymInt's own methods
    if name is None:
        return False  # text that torch runs
    return name.split(".")[0] != "torch" or name.startswith("torch.nn.")
