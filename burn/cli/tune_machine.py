"""`burn tune-machine`: measures the costs of this machine's CPU, by which burn chooses code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from burn.cli.common import command, console, echo
from burn.errors import BurnError, Problem
from burn.runtime import files, machine_costs
from burn.runtime.cache import Cache

if TYPE_CHECKING:
    from burn.codegen.cpu.measured import Measurement
    from burn.codegen.cpu.target import Target

SECONDS = 60.0


@command
@click.option("--show", is_flag=True, help="print the costs in use; measure nothing")
@click.option("--reset", is_flag=True, help="remove the measured costs of this machine, so that defaults apply")
@click.option("--output", type=click.Path(path_type=Path), help="write the costs to FILE and not to the cache")
@click.option("--target", "name", help="measure for this kind of CPU; needs --output if it is not this machine's")
@click.option("--seconds", type=click.FloatRange(min=1), help=f"begin nothing after (default: {SECONDS:.0f})")
def main(show: bool, reset: bool, output: Path | None, name: str | None, seconds: float | None) -> None:
    """Measure the costs of this machine's CPU, by which burn chooses code: thread wake-up, tiles, blocks for caches.

    It takes about a minute of an idle machine. Compilations for this machine use the results from then on; programs in the cache
    that were compiled with other costs are compiled anew. A cost that varies too much keeps its default. Results of programs
    may change by rounding, because sums may have another order.

    A target whose instructions this machine lacks is not measured: llvm-mca counts cycles of instructions for it."""
    if sum((show, reset, output is not None)) > 1:
        raise BurnError("--show, --reset and --output are separate uses", ["give one of them"])
    if (show or reset) and not (name is None and seconds is None):
        raise BurnError("--show and --reset measure nothing", ["leave --target and --seconds out"])
    if reset:
        echo("removed the measured costs" if machine_costs.remove() else "no costs were measured here")
        return
    from burn.codegen.cpu import measured
    from burn.codegen.cpu.target import resolved

    own = resolved(None)
    if show:
        content = machine_costs.content()
        _print(own, None if content is None else measured.of_this_machine(content, own))
        return
    target = _target(name)
    if output is None and target != own:
        hint = "--output FILE writes the costs of another CPU"
        raise BurnError("the cache keeps the costs of this machine alone", [Problem(f"it is {own.name}", hint=hint)])
    if output is None and not Cache.from_environment().size:
        raise BurnError(
            "the cache is off", [Problem("costs are kept there", hint="--output FILE writes them to a file")]
        )
    found = _measure(target, seconds)
    _print(target, found)
    if output is not None:
        files.save_text(output, json.dumps(found.record(), indent=2) + "\n")
        echo(f"{output}: {len(found.measured)} costs")
    else:
        echo(f"{machine_costs.save(found.record())}: {len(found.measured)} costs, in {found.seconds:.0f} s")


def _target(name: str | None) -> Target:
    from burn.codegen.cpu.target import find, resolved

    return resolved(None) if name is None else find(name)


def _measure(target: Target, seconds: float | None) -> Measurement:
    """Raises CompileError for a target that cannot be measured here."""
    from burn.codegen.cpu.target import host_targets
    from burn.runtime.host import features

    if target in host_targets(features()):
        from burn.bench.machine.measure import measure

        return measure(target, seconds or SECONDS, progress=lambda subject: echo(f"measuring {subject}", err=True))
    from burn.bench.machine import instructions

    if seconds is not None:
        raise BurnError(
            f"cycles of {target.name} are counted", [Problem("no time is measured", hint="leave --seconds out")]
        )

    return instructions.measure(target)


def _print(target: Target, found: Measurement | None) -> None:
    """The table of costs: the value in use, the default, and where the value is from."""
    from rich.table import Table

    from burn.codegen.cpu.costs import FIELDS

    measured, kept = ({}, {}) if found is None else (found.measured, found.kept)
    table = Table("cost", "value", "default", "source", "meaning")
    for name, each in FIELDS.items():
        default = getattr(target.costs, name)
        source = "measured" if name in measured else f"default: {kept[name]}" if name in kept else "default"
        table.add_row(name, str(measured.get(name, default)), str(default), source, each.metadata["about"])
    console().print(table)
