"""Passes and pipelines: `simplify,fuse{max-ops=64}` read as passes and run in order.

A pass is a frozen dataclass with a `name`; its fields are its options, written with dashes. Its module registers it.
"""

from __future__ import annotations

import dataclasses
import logging
import pkgutil
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Protocol

from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.errors import BurnError, Problem
from burn.passes.environment import ANYWHERE, Environment

Counts = Mapping[str, int]
"""Numbers that a pass reports of its run, by name: {"laws applied": 12}."""

LIMIT = "stopped at its limit"
"""The count of a pass that stopped before its work was done. The program is correct, but not fully rewritten."""


class Pass(Protocol):
    """Program in, program out (rewritten in place)."""

    name: ClassVar[str]

    def run(self, program: Program, env: Environment) -> Counts | None: ...


@dataclass(frozen=True)
class Ran:
    """One pass of a pipeline after its run: its time, and the ops of the program before and after."""

    name: str
    seconds: float
    ops_before: int
    ops_after: int
    counts: Counts


PASSES: dict[str, type] = {}
_log = logging.getLogger("burn.passes")
_ENTRY = re.compile(r"\s*(?P<name>[\w-]+)\s*(?:\{(?P<options>[^{}]*)\})?\s*")


def register(cls: type) -> type:
    PASSES[cls.name] = cls
    return cls


def available() -> dict[str, type]:
    """Every pass by name: a module of `burn.passes` registers its passes when it is imported."""
    _import_all()
    return PASSES


@cache
def _import_all() -> None:
    for module in pkgutil.iter_modules(import_module("burn.passes").__path__):
        if not module.ispkg:
            import_module(f"burn.passes.{module.name}")


def parse(text: str) -> list[Pass]:
    """Parses `name{option=value option=value},name,...`.

    Raises BurnError naming every unknown pass and option, every value of the wrong kind, and the position of a syntax
    error.
    """
    known = available()
    problems: list[Problem] = []
    passes: list[Pass] = []
    position = 0
    while text.strip() and position <= len(text):
        match = _ENTRY.match(text, position)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            end = match.end() if match is not None else position
            problems.append(
                Problem(f"cannot read '{text[end:]}' at column {end + 1}", hint="name{option=value ..},name,..")
            )
            break
        position = match.end() + 1
        name, options = match["name"], match["options"] or ""
        if name not in known:
            problems.append(Problem(f"there is no pass '{name}'", hint=f"passes: {', '.join(sorted(known))}"))
        else:
            values = _options(known[name], options, problems)
            passes.append(known[name](**values))
    if problems:
        raise BurnError("cannot read the pipeline", problems)
    return passes


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text]


_READERS: dict[type, Callable[[str], Any]] = {bool: _boolean, int: int, float: float, str: str}


def _options(cls: type, text: str, problems: list[Problem]) -> dict[str, Any]:
    """The fields that options set; unparsable values are added to the problems."""
    fields = {f.name.replace("_", "-"): f for f in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for option in text.split():
        key, equals, value = option.partition("=")
        if key not in fields:
            hint = f"options: {', '.join(fields)}" if fields else "it has none"
            problems.append(Problem(f"pass '{cls.name}' has no option '{key}'", hint=hint))
            continue
        kind = type(fields[key].default)
        if not equals and kind is bool:
            value = "true"
        try:
            values[fields[key].name] = _READERS[kind](value)
        except (ValueError, KeyError):
            problems.append(
                Problem(f"option '{key}' of pass '{cls.name}' must be of type {kind.__name__}, not '{value}'")
            )
    return values


def run(
    passes: Sequence[Pass],
    program: Program,
    env: Environment = ANYWHERE,
    after: Callable[[Pass], None] | None = None,
    observe: Callable[[Ran], None] | None = None,
) -> None:
    """Runs passes in order. `after` is called after each; `observe` receives its statistics. The logger `burn.passes`
    names a pass that stopped at its limit."""
    for each in passes:
        size, start = op_count(program) if observe is not None else 0, time.perf_counter()
        counts = each.run(program, env) or {}
        seconds = time.perf_counter() - start
        if counts.get(LIMIT):
            _log.info("the pass '%s' %s", each.name, LIMIT)
        if observe is not None:
            observe(Ran(each.name, seconds, size, op_count(program), counts))
        if after is not None:
            after(each)


def op_count(program: Program) -> int:
    """The number of ops of a program, including its regions and groups."""

    def inside(block: ir.Block) -> int:
        regions = (inner for op in block.operations for region in op.operation.regions for inner in region.blocks)
        return len(list(block.operations)) + sum(map(inside, regions))

    with context():
        return inside(program.block)
