"""The scripts that pip installs. A command's module is imported while Ctrl-C is handled: the import takes longer than many
commands, and an interrupted one ends without a traceback, as a command does that runs."""

from __future__ import annotations

from functools import partial
from importlib import import_module


def start(module: str) -> None:
    """Runs the command `main` of a module."""
    try:
        command = import_module(module).main
    except KeyboardInterrupt:
        raise SystemExit("\nAborted!") from None  # the text goes to stderr, and the status is 1
    command()


burn, import_, compile_, run, bench, opt = (
    partial(start, f"burn.cli.{name}") for name in ("main", "import_", "compile", "run", "bench", "opt")
)
