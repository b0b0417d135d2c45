"""Passes and pipelines: `simplify,fuse{max-ops=64}` read as passes and run in order.

A pass is a frozen dataclass with a `name`; its fields are its options, written with dashes. Each is registered by its module.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from importlib import import_module
from typing import ClassVar, Protocol

from burn.dialect.program import Program
from burn.errors import BurnError, Problem


class Pass(Protocol):
    """Program in, program out (rewritten in place)."""

    name: ClassVar[str]

    def run(self, program: Program) -> None: ...


PASSES: dict[str, type] = {}
MODULES = ("decompose", "fold", "layout", "pack", "fuse", "simplify")
"""The modules that define passes; importing one registers its passes."""


def register(cls: type) -> type:
    PASSES[cls.name] = cls
    return cls


def parse(text: str) -> list[Pass]:
    """Reads `name{option=value option=value},name,...`. Raises BurnError naming every unknown pass or option."""
    for module in MODULES:
        import_module(f"burn.passes.{module}")
    problems: list[Problem] = []
    passes: list[Pass] = []
    for match in re.finditer(r"([\w-]+)(?:\{([^}]*)\})?(?:,|$)", text.replace(" ,", ",")):
        name, options = match.group(1), match.group(2) or ""
        if name not in PASSES:
            problems.append(Problem(f"there is no pass '{name}'", hint=f"passes: {', '.join(sorted(PASSES))}"))
            continue
        fields = {f.name.replace("_", "-"): f for f in dataclasses.fields(PASSES[name])}
        values = {}
        for option in options.split():
            key, _, value = option.partition("=")
            if key not in fields:
                problems.append(Problem(f"pass '{name}' has no option '{key}'"))
                continue
            default = fields[key].default
            values[fields[key].name] = value == "true" if isinstance(default, bool) else type(default)(value)
        passes.append(PASSES[name](**values))
    if problems:
        raise BurnError("cannot read the pipeline", problems)
    return passes


def run(passes: Sequence[Pass], program: Program) -> None:
    for each in passes:
        each.run(program)
