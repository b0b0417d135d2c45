"""`burn-compile`: a model becomes something that runs without Python."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.table import Column, Table

from burn.cli.common import Named, Precision, Progress, Size, command, console, once, print_json
from burn.cli.export import instance, program_from, read, with_weights
from burn.cli.objects import find, sibling
from burn.codegen.cpu.target import TARGETS
from burn.deploy.build import KINDS, build, kind_of
from burn.deploy.gpus import find as gpu
from burn.deploy.gpus import names_device
from burn.deploy.interface import model_name
from burn.deploy.options import Options
from burn.deploy.report import Report
from burn.deploy.webgpu import KIND as WEBGPU
from burn.errors import BurnError, Problem
from burn.options import FULL, HALF, precision_of
from burn.runtime.registry import architectures
from burn.toolchain import platforms

if TYPE_CHECKING:
    from burn.deploy.training import Training

_SHOWN = 4


@command
@click.argument("model")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="the file; for a library the folder"
)
@click.option("--emit", type=click.Choice(list(KINDS)), help="what to write; as OUTPUT ends, or a command (exe)")
@click.option(
    "--target",
    "targets",
    multiple=True,
    help=f"the system it runs on: {', '.join(platforms.PLATFORMS)}; this machine by default, for a module of WebAssembly wasm32; "
    "several, repeated or between commas, go into one package. Or GPU targets, several in one file: "
    f"{', '.join(architectures())}",
)
@click.option(
    "--cpu",
    help=f"the CPU it runs on: {', '.join(TARGETS)}; several between commas go into one binary; "
    "this machine's by default, elsewhere a common one",
)
@click.option("--feature", "features", multiple=True, help="what that CPU has besides, as LLVM calls it; repeatable")
@click.option("--name", help="what functions of the C interface begin with; OUTPUT's name by default")
@click.option(
    "--weights", type=click.Choice(["embedded", "file"]), default="embedded", show_default=True, help="where they go"
)
@click.option(
    "--optimize",
    type=click.Choice(["speed", "size"]),
    default="speed",
    show_default=True,
    help="what the program is to be: quick, or small and slower, with one thread in a library",
)
@click.option("--exact", is_flag=True, help="sum products as they stand (no Winograd)")
@click.option(
    "--precision",
    type=Precision(["fp32", *HALF]),
    default="fp32",
    show_default=True,
    help="of matmuls and convolutions",
)
@click.option(
    "--sign", "key", type=click.Path(path_type=Path), help="of a package: an Ed25519 private key (PEM) to sign it with"
)
@click.option("--dim", "dims", type=Size(), multiple=True, callback=once, help="a size to fix; repeatable")
@click.option(
    "--input",
    "inputs",
    type=Named(),
    multiple=True,
    callback=once,
    help="of a model in Python: NAME=TYPE, as in 'x=float32[batch,784]'",
)
@click.option(
    "--parameters",
    type=click.Path(path_type=Path),
    help="of a module in Python: a file with its weights (.safetensors ...)",
)
@click.option(
    "--predict",
    help="of a training step: the function or module of the same file for inference, or none; by default the step's model",
)
@click.option("--report", "reports", is_flag=True, help="print what every layer costs; for a Cortex-M flash and RAM")
@click.option("--json", "as_json", is_flag=True, help="report as JSON on stdout")
def main(
    model: str,
    output: Path,
    emit: str | None,
    targets: tuple[str, ...],
    cpu: str | None,
    features: tuple[str, ...],
    name: str | None,
    weights: str,
    optimize: str,
    exact: bool,
    precision: str,
    key: Path | None,
    dims: tuple[tuple[str, int], ...],
    inputs: tuple[tuple[str, str], ...],
    parameters: Path | None,
    predict: str | None,
    reports: bool,
    as_json: bool,
) -> None:
    """Compile MODEL into a command, a library with a C interface, or another file that runs without Python.

    MODEL is an .onnx, .mlir or .pt2 file, or file.py:Name or package.module:Name. A training step (a burn.train.step, a Learner,
    a function that assigns parameters) becomes a command or library that trains.

    OUTPUT's ending says what is written: nothing for a command, .o, .ll, .py (Triton) or .burn (a package that burn.load runs);
    --emit shared, static and wasm make folders."""
    start = time.perf_counter()
    if name == "":
        raise click.BadParameter("a name is not empty", param_hint="--name")
    kind = emit or kind_of(output)
    if not output.parent.is_dir():
        raise BurnError(f"{output.parent}: there is no such folder")
    usual = "wasm32" if kind == "wasm" else platforms.HOST
    costs: list[Report] = []
    told = costs.append if reports else None
    named = dict.fromkeys(one for given in targets for one in given.split(","))
    first, *also = [platforms.find(one) for one in named if not names_device(one)] or [platforms.find(usual)]
    gpus = tuple(gpu(one) for one in named if names_device(one))
    form = {"beside": weights == "file", "small": optimize == "size", "exact": exact}
    more = {"also": tuple(also), "gpus": gpus, "precision": precision_of(precision)}
    options = Options(first, cpu, name or "", features=features, key=key, told=told, **form, **more)
    _check(kind, options, reports)
    _spare([Path(model), *([parameters] if parameters else [])], kind, output, options)
    progress = Progress(2)
    progress(f"reading {model}")
    program, training = _read(model, dict(dims), dict(inputs), parameters, predict)
    progress(f"compiling {KINDS[kind].what}")
    if training is None:
        made = build(kind, program, output, options)
    else:
        from burn.deploy import trainers

        if precision != "fp32":
            raise BurnError("--precision is for inference", ["give burn.train.step its own precision"])
        KINDS[kind].check_output(output)
        made = trainers.build(kind, training, output, options)
    report = {
        "emit": kind,
        "files": [{"file": str(path), "bytes": path.stat().st_size} for path in made],
        "seconds": round(time.perf_counter() - start, 3),
    }
    if as_json:
        print_json(report | ({"report": costs[0].described()} if costs else {}))
        return
    for cost in costs:
        _show_cost(cost)
    _show(report)


def _read(
    model: str, dims: dict[str, int], inputs: dict[str, str], parameters: Path | None, predict: str | None
) -> tuple[Any, Training | None]:
    """The program of a model, or a training."""
    is_python = ":" in Path(model).name
    if predict is not None and not is_python:
        raise BurnError(f"{model} is no training step", [Problem("--predict is for those, file.py:Name")])
    if dims and is_python:
        raise BurnError(f"{model} has its sizes in --input", [Problem("--dim is for models in files")])
    if dims:
        from burn.cli.common import existing
        from burn.loading import read_program

        return read_program(existing(model), dims), None
    if not is_python:
        return read(model, inputs, parameters), None
    return _from_python(model, inputs, parameters, predict)


def _from_python(
    model: str, inputs: dict[str, str], parameters: Path | None, predict: str | None
) -> tuple[Any, Training | None]:
    from burn.cli.common import existing
    from burn.deploy import training
    from burn.tracing.trace import Assigned, is_module

    found = instance(find(model), model)
    if training.is_step(found):
        if parameters is not None:
            found.model.load(existing(parameters))
        return None, training.of(found, inputs, _inference(model, predict))
    with_weights(found, model, parameters)
    try:
        if predict is None:
            return program_from(found, inputs), None
    except Assigned:
        if is_module(found):
            raise
    return None, training.of(found, inputs, _inference(model, predict))


def _inference(model: str, predict: str | None) -> Any:
    """The function for inference; None for the default, False for none."""
    return {None: None, "none": False}[predict] if predict in (None, "none") else sibling(model, predict)


def _check(kind: str, options: Options, reports: bool) -> None:
    if options.name and kind not in ("shared", "static", "wasm", "object"):
        raise click.UsageError(f"--name is for libraries, modules of WebAssembly and objects, not for {kind}")
    if options.name and (usable := model_name(options.name)) != options.name:
        raise click.UsageError(f"--name '{options.name}' cannot begin the names of C functions; {usable} can")
    if kind not in ("exe", "shared", "static", "wasm") and reports:
        raise click.UsageError(f"--report is for commands, libraries and modules of WebAssembly, not for {kind}")
    if kind not in ("exe", "shared", "static") and options.beside:
        raise click.UsageError(f"--weights is for commands and libraries, not for {kind}")
    for target in options.gpus:
        if target.kind == WEBGPU and kind != "wasm":
            raise click.UsageError(f"{target} is a target for packages with WebAssembly (--emit wasm), not for {kind}")
        if target.kind != WEBGPU and kind not in ("exe", "shared", "static", "package"):
            raise click.UsageError(f"{target} is a target for commands, libraries and packages, not for {kind}")
    if kind == "triton" and options.small:
        raise click.UsageError("--optimize is for programs that run on a CPU, not for triton")
    if kind == "triton" and options.exact:
        raise click.UsageError("--exact is for programs that run on a CPU, not for triton")
    if options.precision != FULL and (kind == "wasm" or options.platform.architecture == "thumbv7em"):
        raise click.UsageError("--precision is for commands, libraries and packages with an operating system")
    if kind != "package" and options.key:
        raise click.UsageError(f"--sign is for packages (--emit package), not for {kind}")
    if kind != "package" and options.also:
        raise click.UsageError(f"several targets are for packages (--emit package), not for {kind}")


def _spare(sources: Sequence[Path], kind: str, output: Path, options: Options) -> None:
    """Raises BurnError where the model, or the file of its weights, is what would be written."""
    written = {output} if not KINDS[kind].is_folder else set()
    if options.beside:
        name = output.stem if kind == "exe" else model_name(options.name or output.stem)
        folder = output if KINDS[kind].is_folder else output.parent
        written |= {folder / f"{name}.safetensors", folder / f"{name}.weights.safetensors"}  # of a model, of a training
    known = {path.resolve() for path in written}
    if over := [source for source in sources if source.resolve() in known]:
        raise BurnError(f"{over[0]} would be written over", ["it is read to make this; give another output"])


def _show_cost(cost: Report) -> None:
    table = Table("layer", "nodes", Column("multiply-adds", justify="right"), box=box.SIMPLE)
    for layer in cost.layers:
        table.add_row(layer.name, ", ".join(layer.nodes), _number(layer.multiply_adds))
    out = console()
    out.print(table)
    out.print(f"{_number(cost.multiply_adds)} multiply-adds, {_number(cost.weights)} bytes of weights")
    if cost.footprint:
        flash, ram = _number(cost.footprint.flash), _number(cost.footprint.ram)
        out.print(f"flash {flash} bytes (code, tables, weights), RAM {ram} (arena, inputs, outputs) and the stack")


def _number(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def _show(report: dict[str, Any]) -> None:
    out = console()
    for row in report["files"][:_SHOWN]:
        out.print(f"{row['file']}: {row['bytes']:,} bytes")
    if rest := len(report["files"]) - _SHOWN:
        out.print(f"and {rest} more" if rest > 0 else f"in {report['seconds']:.2f} s")


if __name__ == "__main__":
    sys.exit(main())
