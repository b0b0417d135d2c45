"""`burn-import weights.pt --into file.py:Class`: weights are loaded into a module, and saved as its own. Enter at `load_into`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from burn.cli.common import Progress, echo, existing, print_json
from burn.cli.objects import find
from burn.errors import BurnError, Problem

if TYPE_CHECKING:
    from burn.nn import Module

WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".bpk", ".npz", ".npy", ".json")


class Renaming(click.ParamType):
    """FROM=>TO: a regular expression and its replacement."""

    name = "FROM=>TO"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        pattern, sign, replacement = str(value).partition("=>")
        if not sign or not pattern:
            self.fail(f"'{value}' is not FROM=>TO", param, ctx)
        return pattern, replacement


class Arguments(click.ParamType):
    """JSON: an object of named arguments, or a list of positional ones."""

    name = "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, (list, dict)):
            return value
        try:
            parsed = json.loads(value)
        except ValueError as error:
            self.fail(f"it is not JSON: {error}", param, ctx)
        if not isinstance(parsed, (list, dict)):
            self.fail("it must be an object or a list", param, ctx)
        return parsed


def refuse_weights(path: Path) -> None:
    """Raises BurnError for a file of weights that is given without a module to load it into."""
    if path.suffix in WEIGHTS:
        hint = "--into file.py:Class loads them into a burn.nn.Module"
        raise BurnError(f"{path} holds weights and no program", [Problem("they need a module", hint=hint)])


def load_into(
    path: Path,
    target: str,
    output: Path,
    *,
    arguments: list[Any] | dict[str, Any],
    remap: tuple[tuple[str, str], ...],
    partial: bool,
    dtype: str | None,
    adapter: str,
    top_level_key: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Loads a weight file into the module that a class makes, prints the report and saves the module's weights.

    Raises BurnError; nothing is written then."""
    start = time.perf_counter()
    existing(path)
    from burn.importers.weights.formats import check_ending

    check_ending(output)
    if output.exists() and not force:
        raise BurnError(f"{output} would be overwritten", [Problem("it exists", hint="--force overwrites")])
    if not output.absolute().parent.is_dir():
        raise BurnError(f"{output} cannot be written", [f"there is no folder {output.parent}"])
    progress = Progress(3)
    progress(f"making {target}")
    module = make(target, arguments)
    progress(f"loading {path}")
    report = module.load(
        path,
        remap=remap,
        partial=partial,
        dtype=dtype,
        adapter=None if adapter == "none" else adapter,
        top_level_key=top_level_key,
    )
    progress(f"writing {output}")
    module.save(output)
    seconds = round(time.perf_counter() - start, 3)
    if as_json:
        print_json({"report": report.json(), "output": str(output), "seconds": seconds})
    else:
        echo(str(report))


def make(target: str, arguments: list[Any] | dict[str, Any]) -> Module:
    """The module that a class, or a function, makes with these arguments. Raises BurnError."""
    from burn.nn import Module

    kind = find(target)
    if not callable(kind):
        raise BurnError(f"{target} is no class", [f"it is of type {type(kind).__name__}"])
    if isinstance(kind, Module):
        return kind
    try:
        made = kind(**arguments) if isinstance(arguments, dict) else kind(*arguments)
    except BurnError:
        raise
    except Exception as error:
        problem = Problem(f"{type(error).__name__}: {error}", hint="--args gives the constructor's arguments")
        raise BurnError(f"{target} cannot be made", [problem]) from error
    if not isinstance(made, Module):
        raise BurnError(f"{target} makes no burn.nn.Module", [f"it makes a {type(made).__name__}"])
    return made
