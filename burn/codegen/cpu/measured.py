"""The costs that `burn tune-machine` measured on this machine, for compilations that run here.

The file is not trusted: a value is used only if the whole file is valid (`parse`). Otherwise the defaults remain, with a warning.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from burn.codegen.cpu.costs import Costs
from burn.codegen.cpu.target import Target
from burn.errors import CompileError
from burn.runtime import _native, host, machine_costs
from burn.runtime.cache import CacheWarning

FORMAT = 1

LONGEST = 1e6
"""Seconds that no measurement takes."""


@dataclass(frozen=True)
class Measurement:
    """The result of `burn tune-machine`. `measured`: values by cost. `kept`: costs that keep their defaults, each with
    the reason."""

    processor: str
    target: str
    threads: int
    seconds: float
    measured: Mapping[str, int]
    kept: Mapping[str, str]

    def record(self) -> dict[str, object]:
        """The measurement as JSON has it."""
        return {
            "format": FORMAT,
            "burn": _native.__version__,
            "processor": self.processor,
            "target": self.target,
            "threads": self.threads,
            "seconds": round(self.seconds, 1),
            "measured": dict(self.measured),
            "kept": dict(self.kept),
        }


def costs(target: Target) -> Costs:
    """The costs of compilations for this machine's CPU: measured ones, and the target's defaults for the others."""
    found = machine_costs.content()
    return target.costs if found is None else _costs(found, target)


@lru_cache(maxsize=4)
def _costs(content: bytes, target: Target) -> Costs:
    try:
        return target.costs.changed(of_this_machine(content, target).measured)
    except CompileError as error:
        text = f"the measured costs of this machine are not used: {error} (`burn tune-machine` measures them again)"
        warnings.warn(text, CacheWarning, stacklevel=4)
        return target.costs


def of_this_machine(content: bytes, target: Target) -> Measurement:
    """The measurement in a file. Raises CompileError if it is of another CPU or target, and as `parse` does."""
    found = parse(content)
    if (found.processor, found.target) != (host.processor(), target.name):
        raise CompileError("costs of another CPU", [f"they are of '{found.processor}' and the target {found.target}"])
    return found


def parse(content: bytes) -> Measurement:
    """The measurement in a file. Raises CompileError for a file of another format or version, and for values out of bounds."""
    try:
        read: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CompileError("the file of measured costs is damaged", [f"it is no JSON: {error}"]) from None
    given = read if isinstance(read, dict) else {}
    if (given.get("format"), given.get("burn")) != (FORMAT, _native.__version__):
        raise CompileError("the file of measured costs is not of this version of burn", ["measure the costs again"])
    fields = {"processor": str, "target": str, "threads": int, "seconds": (int, float), "measured": dict, "kept": dict}
    wrong = [name for name, kind in fields.items() if not isinstance(given.get(name), kind)]
    if "seconds" not in wrong and not 0 <= given["seconds"] < LONGEST:
        wrong.append("seconds")
    if wrong or not all(isinstance(reason, str) for reason in given["kept"].values()):
        raise CompileError(
            "the file of measured costs is damaged", [f"'{name}' is not valid" for name in wrong or ["kept"]]
        )
    measured = Costs.of(given["measured"])
    kept = {str(name): str(reason) for name, reason in given["kept"].items()}
    return Measurement(given["processor"], given["target"], given["threads"], float(given["seconds"]), measured, kept)
