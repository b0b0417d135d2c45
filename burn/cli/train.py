"""`burn train`: an experiment, with fields of its configuration set on the way."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import click

from burn.cli.common import Named, command, echo
from burn.cli.objects import find
from burn.errors import BurnError, Problem

INTERRUPTED = 130
"""The exit status of a training that Ctrl-C or SIGTERM has ended, in good order."""


@command
@click.argument("experiment", metavar="EXPERIMENT")
@click.option(
    "--set", "settings", type=Named(), multiple=True, help="FIELD=VALUE, such as optimizer.lr=3e-4; repeatable"
)
@click.option("--epochs", type=click.IntRange(1), help="short for --set epochs=NUMBER")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="where configuration, logs and checkpoints go")
@click.option(
    "--resume", is_flag=True, help="go on from the last checkpoint in --dir, with the configuration that is there"
)
@click.option("--overwrite", is_flag=True, help="begin anew in a --dir that has a training")
@click.option(
    "--show",
    type=click.Choice(["auto", "dashboard", "line", "none"]),
    default="auto",
    show_default=True,
    help="auto: the dashboard in a terminal, else a line",
)
@click.option("--device", help="what to train on: cpu, or a GPU: cuda, cuda:1  [default: where the experiment puts it]")
@click.option("--config", "print_config", is_flag=True, help="print the configuration as YAML and train nothing")
def main(
    experiment: str,
    settings: tuple[tuple[str, str], ...],
    epochs: int | None,
    folder: Path | None,
    resume: bool,
    overwrite: bool,
    show: str,
    device: str | None,
    print_config: bool,
) -> None:
    """Train EXPERIMENT, "package.module:name" or "file.py:name": a burn.train.Experiment, or a class of them."""
    if resume and folder is None:
        raise click.UsageError("--resume goes with --dir")
    if resume and overwrite:
        raise click.UsageError("--resume and --overwrite exclude each other")
    from burn.train.experiment import FILE, changed

    made = _experiment(experiment)
    if resume and folder is not None and (folder / FILE).exists():
        made = type(made).load(folder / FILE)
    made = changed(made, [*settings, *([("epochs", str(epochs))] if epochs is not None else [])])
    if print_config:
        echo(made.to_yaml(), nl=False)
        return
    options: dict[str, Any] = {"fit": fit} if (fit := _shown(show)) is not None else {}
    summary = made.run(folder, resume=resume, overwrite=overwrite, progress=show != "none", device=device, **options)
    if summary.reason in ("interrupted", "terminated"):
        sys.exit(INTERRUPTED)


def _experiment(text: str) -> Any:
    """Raises BurnError for what is no experiment."""
    from burn.train.experiment import Experiment

    found = find(text)
    if inspect.isclass(found) and issubclass(found, Experiment):
        return found()
    if not isinstance(found, Experiment):
        hint = "a subclass of burn.train.Experiment, or an instance of one"
        raise BurnError(f"{text} is no experiment", [Problem(f"it is a {type(found).__name__}", hint=hint)])
    return found


def _shown(show: str) -> Any:
    """The function that trains with a dashboard, if requested. Raises BurnError if a dashboard is not possible."""
    if show not in ("auto", "dashboard"):
        return None
    try:
        from burn.train import dashboard
    except ImportError as error:
        if show == "auto":
            return None
        raise BurnError(
            "the dashboard needs Textual", [Problem(str(error), hint="pip install 'burn-mlir[train]'")]
        ) from None
    if show == "dashboard" and not dashboard.in_terminal():
        raise BurnError("there is no terminal for a dashboard", ["--show line"])
    return dashboard.fit
