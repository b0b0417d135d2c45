"""`burn train`: an experiment, with fields of its configuration set on the way."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import click

from burn.cli.common import Named, command, echo
from burn.cli.objects import find
from burn.errors import BurnError, DistributedError, Problem

OF_LAUNCHER = ("processes", "devices", "hosts", "number", "timeout", "engine")
"""The options that start processes. Their parameters are not passed to these."""

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
@click.option(
    "--processes", type=click.IntRange(1), help="trains in so many processes on this machine, or on each host"
)
@click.option(
    "--devices",
    type=click.IntRange(1),
    help="trains on so many GPUs of this machine, or of each host: a process for each",
)
@click.option(
    "--engine",
    type=click.Choice(["burn", "xla"]),
    help="what runs the steps of several processes  [default: xla if JAX is installed, else burn; burn with --devices]",
)
@click.option(
    "--hosts",
    help="names of all hosts, the first with a port: a:17310,b,c. Run the same command on each, with its --host",
)
@click.option(
    "--host", "number", type=click.IntRange(0), help="which of --hosts this one is, from 0  [default: by its name]"
)
@click.option(
    "--mesh",
    "axes",
    help="sizes of the mesh's axes: data=4,model=2; -1: all devices left  [default: data=-1 in processes]",
)
@click.option(
    "--timeout", type=float, help="seconds after which a process that does not come up or answer is lost  [60]"
)
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
    processes: int | None,
    devices: int | None,
    engine: str | None,
    hosts: str | None,
    number: int | None,
    axes: str | None,
    timeout: float | None,
    print_config: bool,
) -> None:
    """Train EXPERIMENT, "package.module:name" or "file.py:name": a burn.train.Experiment, or a class of them."""
    if resume and folder is None:
        raise click.UsageError("--resume goes with --dir")
    if resume and overwrite:
        raise click.UsageError("--resume and --overwrite exclude each other")
    if devices is not None and (processes is not None or engine == "xla"):
        raise click.UsageError(
            "--devices has a process for each GPU, by the engine burn: without --processes and --engine xla"
        )
    alone = processes is None and devices is None and hosts is None
    if alone and (number is not None or timeout is not None or engine is not None):
        raise click.UsageError("--host, --timeout and --engine go with --processes, --devices or --hosts")
    if devices is not None and device is None:
        device = click.get_current_context().params["device"] = "cuda"
    from burn.distributed import processes as own

    if not alone and not print_config and not own.is_launched():
        chosen = "burn" if devices is not None else engine or own.AUTO
        sys.exit(_launched(processes or devices or 1, hosts, number, timeout, chosen))
    if own.is_launched() and not print_config:
        own.initialize()
        show = show if show == "none" else "line"
    from burn.train.experiment import FILE, changed

    made = _experiment(experiment)
    if resume and folder is not None and (folder / FILE).exists():
        made = type(made).load(folder / FILE)
    made = changed(made, [*settings, *([("epochs", str(epochs))] if epochs is not None else [])])
    if print_config:
        echo(made.to_yaml(), nl=False)
        return
    options: dict[str, Any] = {"fit": fit} if (fit := _shown(show)) is not None else {}
    if axes is not None:
        options["mesh"] = _mesh(made, axes)
    try:
        summary = made.run(
            folder, resume=resume, overwrite=overwrite, progress=show != "none", device=device, **options
        )
    except DistributedError as error:
        if not own.is_launched():
            raise
        echo(f"error: {error}", err=True)
        sys.exit(own.EXIT)  # the launcher tells causes from consequences
    if summary.reason in ("interrupted", "terminated"):
        sys.exit(INTERRUPTED)


def _launched(processes: int, hosts: str | None, number: int | None, timeout: float | None, engine: str) -> int:
    """Starts this host's processes with the command's own arguments; the exit status of the first. Raises DistributedError."""
    from burn.distributed import launch
    from burn.distributed.processes import TIMEOUT

    names = hosts.split(",") if hosts else ["127.0.0.1:0"]
    if any(not name for name in names):
        raise click.UsageError("--hosts has an empty name")
    here = _host(names, number) if len(names) > 1 else 0
    first = names[0] if ":" in names[0] else f"{names[0]}:{launch.PORT}"
    return launch.launch(
        [sys.executable, "-m", "burn.cli.main", "train", *_arguments()],
        processes,
        first=here * processes,
        total=len(names) * processes,
        coordinator=first,
        good=lambda status: status in (0, INTERRUPTED),
        timeout=TIMEOUT if timeout is None else timeout,
        engine=engine,
    )


def _arguments() -> list[str]:
    """The arguments of this command, for the processes that it starts."""
    context, found = click.get_current_context(), list[str]()
    for parameter in context.command.params:
        value = context.params[str(parameter.name)]
        if parameter.name in OF_LAUNCHER or value is None or value is False:
            continue
        for one in value if parameter.multiple else [value]:  # type: ignore[attr-defined]
            text = "=".join(one) if isinstance(one, tuple) else str(one)
            if isinstance(parameter, click.Argument):
                found.append(text)
            else:
                found += [parameter.opts[0], *([] if one is True else [text])]
    return found


def _host(names: list[str], number: int | None) -> int:
    if number is not None:
        if number >= len(names):
            raise click.UsageError(f"--host is {number}, and --hosts has {len(names)}")
        return number
    import socket

    own = {socket.gethostname(), socket.getfqdn(), socket.gethostname().partition(".")[0]}
    found = [i for i, name in enumerate(names) if name.partition(":")[0] in own]
    if len(found) != 1:
        raise click.UsageError(
            f"this host is {socket.gethostname()}, which --hosts does not name; say which with --host"
        )
    return found[0]


def _mesh(experiment: Any, text: str) -> Any:
    """The mesh of the experiment's Learner with these sizes, or a new one. Raises BurnError."""
    from burn.distributed.mesh import Mesh

    axes: dict[str, int] = {}
    for entry in text.split(","):
        name, equals, size = entry.partition("=")
        if not equals or not size.lstrip("-").isdecimal():
            raise click.UsageError(f"--mesh is {text!r}; write axes and sizes: data=4,model=2")
        axes[name.strip()] = int(size)
    known = experiment.mesh()
    return Mesh(axes) if known is None else known.with_axes(axes)


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
