"""Common parts of the commands: error messages, progress, options and inputs. Start at `command`."""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from burn.errors import BurnError, InputError, Problem, shown
from burn.options import PRECISIONS
from burn.variables import variable

PIPE_WIDTH = 110  # columns of a table that no terminal shows
CONTEXT = {"help_option_names": ["-h", "--help"]}


def command(function: Callable[..., Any]) -> click.Command:
    """A command whose errors are a message and exit status 1, never a traceback (BURN_TRACEBACK=1 shows it)."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            with _budget(kwargs):
                return function(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if variable("BURN_TRACEBACK"):
                traceback.print_exception(error)
            message = _message(error)
        click.echo(click.style("error: ", fg="red") + shown(message), err=True)
        sys.exit(1)

    guarded.__click_params__ = [*_BUDGET, *getattr(guarded, "__click_params__", ())]  # type: ignore[attr-defined]
    return click.command(context_settings=CONTEXT)(guarded)


_BUDGET = (
    click.Option(["--ops"], multiple=True, metavar="FILE", help="a Python file that defines custom ops; repeatable"),
    click.Option(["--max-seconds"], type=float, help="end when more have passed"),
    click.Option(["--max-memory"], metavar="SIZE", help="end when more is allocated: 500MB, 2GB"),
)
"""Options of every command, shown last."""


@contextmanager
def _budget(options: dict[str, Any]) -> Iterator[None]:
    """Enforces a command's --max-memory and --max-seconds, and runs the files of --ops. It takes these out of its options."""
    from burn.cli.objects import load
    from burn.runtime.budget import Limits, limited

    files = options.pop("ops")
    with limited(Limits.of(options.pop("max_memory"), options.pop("max_seconds")), "the command"):
        for file in files:
            load(existing(file))
        yield


def _message(error: Exception) -> str:
    """The text for an exception that a command ended with."""
    if isinstance(error, BurnError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    if isinstance(error, MemoryError):
        return f"out of memory: {error}" if str(error) else "out of memory"
    return f"internal error: {type(error).__name__}: {error}\n(BURN_TRACEBACK=1 shows where)"


class Terminal(Console):
    """A console to which no text brings escape codes of its own (see `shown`)."""

    def render_str(self, text: str, **options: Any) -> Text:  # type: ignore[override]
        return super().render_str(shown(text), **options)


class Progress:
    """Numbered lines on stderr: `[2/4] importing`."""

    def __init__(self, phases: int, quiet: bool = False) -> None:
        self.phases, self.quiet, self.number = phases, quiet, 0

    def __call__(self, text: str) -> None:
        self.number += 1
        if not self.quiet:
            echo(f"[{self.number}/{self.phases}] {text}", err=True)


def console() -> Console:
    """Where tables go."""
    terminal = Terminal(highlight=False, markup=False)  # a shape in brackets is no markup
    return terminal if terminal.is_terminal else Terminal(highlight=False, markup=False, width=PIPE_WIDTH)


def echo(text: str, err: bool = False, nl: bool = True) -> None:
    """Prints a text in which names of a file may stand. Commands print by this, or by `console`, and in no other way."""
    click.echo(shown(text), err=err, nl=nl)


def print_json(value: Any) -> None:
    echo(json.dumps(value, indent=1))


class Size(click.ParamType):
    """NAME=NUMBER: the size of a symbol."""

    name = "NAME=NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        symbol, _, number = str(value).rpartition("=")
        if not symbol or not number.isdecimal():
            self.fail(f"'{value}' is not NAME=NUMBER", param, ctx)
        return symbol, int(number)


class Precision(click.Choice):
    """A precision by its short or its long name; values are the short ones."""

    def __init__(self, names: Sequence[str] = tuple(PRECISIONS)) -> None:
        super().__init__(names)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        short = {PRECISIONS[name]: name for name in self.choices}
        return super().convert(short.get(value, value), param, ctx)


class Seed(click.IntRange):
    """A seed of random numbers."""

    def __init__(self) -> None:
        super().__init__(min=0)


class Tolerance(click.FloatRange):
    """A relative difference: no negative number, and no NaN."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        tolerance = super().convert(value, param, ctx)
        if tolerance != tolerance:
            self.fail(f"{value} is not a number", param, ctx)
        return tolerance


def once(ctx: click.Context, param: click.Parameter, given: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    """A callback for repeatable options of names with values: each name once."""
    names = [name for name, _ in given]
    for name in dict.fromkeys(names):
        if len({value for other, value in given if other == name}) > 1:
            raise click.BadParameter(f"'{name}' has several values", ctx, param)
    return given


class Named(click.ParamType):
    """NAME=VALUE."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, sign, text = str(value).partition("=")
        if not name or not sign or not text:
            self.fail(f"'{value}' is not NAME=VALUE", param, ctx)
        return name, text


def existing(path: str | os.PathLike[str]) -> Path:
    """A file that is there. Raises BurnError."""
    path = Path(path)
    if not path.exists():
        raise BurnError(f"{path}: there is no such file")
    if path.is_dir():
        raise BurnError(f"{path} is a folder, not a file")
    return path


def make_inputs(
    specs: Any,
    given: Mapping[str, str],
    sizes: Mapping[str, int],
    seed: int,
    limits: Mapping[str, int] | None = None,
) -> tuple[dict[str, Any], dict[str, int]]:
    """Arrays for a program's inputs, and the sizes that were taken from `sizes`.

    given: for each input a .npy file, a .npz file that holds it under its name, or "random"; an input that is not named is
    random. Random floats are normal, bytes any, other whole numbers below the input's limit (see `ranges.py`), or else 0 or
    1, which every embedding and mask accepts."""
    import numpy as np

    from burn.runtime import sizes as expressions
    from burn.runtime.dtypes import DTYPES, numpy_dtype

    names = [spec.name for spec in specs]
    problems = [
        Problem(f"there is no input '{n}'", hint=f"the inputs are {', '.join(names)}") for n in given if n not in names
    ]
    arrays: dict[str, Any] = {}
    values = dict(sizes)
    for spec in specs:
        source = given.get(spec.name, "random")
        if source == "random":
            continue
        try:
            arrays[spec.name] = _from_file(existing(source), spec.name)
        except (BurnError, OSError, ValueError) as error:
            problems.append(Problem(f"input '{spec.name}': {error}"))
            continue
        for dim, size in zip(spec.dims, arrays[spec.name].shape, strict=False):
            if isinstance(dim, str):
                values.setdefault(dim, size)
    random = np.random.default_rng(seed)
    used: dict[str, int] = {}
    for spec in specs:
        if given.get(spec.name, "random") != "random":
            continue
        shape = []
        for dim in spec.dims:
            try:
                shape.append(dim if isinstance(dim, int) else expressions.parse(dim).evaluate(values))
                used.update(
                    {k: v for k, v in values.items() if isinstance(dim, str) and k in expressions.parse(dim).symbols}
                )
            except KeyError as missing:
                hint = f"--dim {missing.args[0]}=NUMBER"
                problems.append(Problem(f"the size '{missing.args[0]}' of input '{spec.name}' is not known", hint=hint))
        if len(shape) == len(spec.dims):
            if DTYPES[spec.dtype].numpy is None or spec.dtype == "string":
                hint = f"--input {spec.name}=FILE.npy"
                what = f"input '{spec.name}' holds {spec.dtype}s, which cannot be drawn at random"
                problems.append(Problem(what, hint=hint))
                continue
            arrays[spec.name] = _draw(random, numpy_dtype(spec.dtype), tuple(shape), (limits or {}).get(spec.name))
    unused = sizes.keys() - {
        s for spec in specs for d in spec.dims if isinstance(d, str) for s in expressions.parse(d).symbols
    }
    problems += [Problem(f"no input has a size named '{name}'") for name in sorted(unused)]
    if problems:
        raise InputError("the inputs cannot be made", dict.fromkeys(problems))
    return {name: arrays[name] for name in names}, used


def _from_file(path: Path, name: str) -> Any:
    import numpy as np

    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        if _is_array_file(path):
            raise
        raise BurnError(f"{path} is not a .npy or .npz file") from error
    if not isinstance(loaded, np.lib.npyio.NpzFile):
        return loaded
    with loaded:
        if name not in loaded.files:
            raise BurnError(f"{path} does not hold '{name}'; it holds {', '.join(loaded.files)}")
        return loaded[name]


def _is_array_file(path: Path) -> bool:
    """True if the file begins as numpy's files do."""
    with open(path, "rb") as file:
        return file.read(6).startswith((b"\x93NUMPY", b"PK\x03\x04"))


def _draw(random: Any, dtype: Any, shape: tuple[int, ...], limit: int | None) -> Any:
    if dtype.kind in "iu" and dtype.itemsize == 1 and limit is None:
        return random.integers(-128 if dtype.kind == "i" else 0, 128 if dtype.kind == "i" else 256, shape).astype(dtype)
    if dtype.kind in "iub":
        most = 2 if limit is None else min(limit, 1 << (8 * dtype.itemsize - (dtype.kind == "i")))
        return random.integers(0, most, shape).astype(dtype)
    if dtype.kind == "c":
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)
    return random.standard_normal(shape).astype(dtype)
