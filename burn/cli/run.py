"""`burn-run`: run a model, compare its results with ONNX Runtime's, and see where its time goes."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from burn.cli.common import (
    Named,
    Precision,
    Progress,
    Seed,
    Size,
    Tolerance,
    command,
    console,
    existing,
    make_inputs,
    once,
    print_json,
)
from burn.cli.profile import profiled, roofline, show_profile
from burn.codegen.tuning.modes import MODES
from burn.errors import BurnError, shown
from burn.options import Options
from burn.runtime.budget import left

if TYPE_CHECKING:
    from burn.runtime.executable import Executable

PROFILED = 5  # runs that are profiled at least
TOLERANCE = 1e-4  # largest difference, relative to an output's largest value


@command
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--input",
    "inputs",
    type=Named(),
    multiple=True,
    callback=once,
    help="NAME=FILE (.npy, .npz) or NAME=random; repeatable",
)
@click.option("--dim", "dims", type=Size(), multiple=True, callback=once, help="fix the size of a symbol; repeatable")
@click.option("--seed", type=Seed(), default=0, show_default=True, help="of random inputs")
@click.option("--save", type=click.Path(path_type=Path), help="write the outputs to a .npz file")
@click.option(
    "--verify",
    type=click.Choice(["onnxruntime", "reference", "xla"]),
    help="compare every output with ONNX Runtime's, with burn's slow interpreter's, or with XLA's",
)
@click.option("--per-node", is_flag=True, help="with --verify: find the first node whose result differs")
@click.option(
    "--tolerance",
    type=Tolerance(),
    default=TOLERANCE,
    show_default=True,
    help="difference relative to the largest value",
)
@click.option(
    "--profile", "with_profile", is_flag=True, help="show every kernel's time, and what share of the machine it reaches"
)
@click.option("--trace", type=click.Path(path_type=Path), help="write what ran when, for chrome://tracing or Perfetto")
@click.option(
    "--report", "page", type=click.Path(path_type=Path), help="write a page (.html) on kernels, memory and graph"
)
@click.option(
    "--repeat", type=click.IntRange(1), default=1, show_default=True, help="runs, of which the median is shown"
)
@click.option("--device", default="cpu", show_default=True, help="cpu, or a GPU: cuda, cuda:1")
@click.option("--precision", type=Precision(), default="fp32", help="of matmuls", show_default=True)
@click.option(
    "--autotune",
    type=click.Choice(MODES),
    help="time a few or more forms of kernels, and take the fastest; off, or BURN_AUTOTUNE, by default",
)
@click.option("--exact", is_flag=True, help="sum products as they stand (no Winograd)")
@click.option("--threads", type=click.IntRange(1), help="the number of cores by default")
@click.option(
    "--signed-by", type=click.Path(path_type=Path), help="the public key (PEM) that a package must be signed with"
)
@click.option("--no-cache", is_flag=True, help="compile, whatever the cache holds")
@click.option("--json", "as_json", is_flag=True, help="report as JSON on stdout")
def main(
    model: Path,
    inputs: tuple[tuple[str, str], ...],
    dims: tuple[tuple[str, int], ...],
    seed: int,
    save: Path | None,
    verify: str | None,
    per_node: bool,
    tolerance: float,
    with_profile: bool,
    trace: Path | None,
    page: Path | None,
    repeat: int,
    device: str,
    precision: str,
    autotune: str | None,
    exact: bool,
    threads: int | None,
    signed_by: Path | None,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Run MODEL (an ONNX file or a compiled program) on inputs from files, or on random ones."""
    if per_node and not verify:
        raise click.UsageError("--per-node goes with --verify")
    existing(model)
    for file in (save, trace, page):
        if file is not None and not file.absolute().parent.is_dir():
            raise BurnError(f"cannot write {file}", ["there is no such folder"])
    if save is not None:
        _check_name(save)
    import burn
    from burn.loading import COMPILED

    progress = Progress(2 + bool(verify) + bool(with_profile or trace or page))
    progress(f"loading {model}")
    start = time.perf_counter()
    fixed = dict(dims)
    compiled = model.suffix == COMPILED  # its sizes are what they are, --dim only chooses those of random inputs
    sizes_given = None if compiled else fixed
    options: dict[str, Any] = {"device": device, "precision": precision, "autotune": autotune, "exact": exact}
    texts: list[str] = []
    modules: dict[str, Any] = {}
    opened: list[str] = []  # constants of the model that inputs= of burn.load makes inputs
    while True:
        if page is not None and not compiled:
            executable, texts, modules = _described(model, fixed, opened, Options.of(**options), threads)
        else:
            more = {"inputs": opened, "signed_by": signed_by, **options}
            executable = burn.load(model, cache=not no_cache, threads=threads, dims=sizes_given, **more)
        defaults = [name for name, _ in inputs if name in executable.artefact.signature.defaults]
        if compiled or not defaults:
            break
        opened = defaults
    load_seconds = time.perf_counter() - start
    executable.limit_to(left())
    limits = {} if compiled else _limits(model, fixed, opened, executable.inputs, dict(inputs))
    feeds, sizes = make_inputs(executable.inputs, dict(inputs), fixed if compiled else {}, seed, limits)

    progress("running")
    seconds, outputs = [], {}
    for _ in range(repeat):
        start = time.perf_counter()
        outputs = executable.run(feeds)
        seconds.append(time.perf_counter() - start)
    if any(spec.keys for spec in executable.outputs):
        from burn.cli.verify import as_array

        outputs = {name: as_array(output) for name, output in outputs.items()}
    if save is not None:
        _save(save, outputs)
    report: dict[str, Any] = {
        "model": str(model),
        "sizes": sizes if compiled else fixed,
        "load_seconds": round(load_seconds, 4),
        "seconds": statistics.median(seconds),
        "least": min(seconds),
        "most": max(seconds),
        "outputs": [_summary(name, array) for name, array in outputs.items()],
    }
    failed = False
    if verify:
        progress(f"comparing with {verify}")
        from burn.cli.verify import first_difference, verify_outputs

        rows = verify_outputs(model, feeds, outputs, tolerance, verify)
        failed = any(not row["same"] for row in rows)
        report["verify"] = {"with": verify, "tolerance": tolerance, "outputs": rows, "same": not failed}
        if per_node:
            report["verify"]["first_difference"] = first_difference(model, feeds, tolerance, verify)
            failed = failed or report["verify"]["first_difference"] is not None
    if with_profile or trace or page:
        progress("profiling")
        from burn.bench.load import Others

        with Others() as others:
            profile = executable.profile(*feeds.values(), repeat=max(repeat, PROFILED))
            roof = roofline() if executable.device.memory.is_host and (with_profile or page) else None
        figures = profiled(profile, roof, others)
        if with_profile:
            report |= figures
        if page is not None:
            from burn.cli.report import page as drawn
            from burn.runtime.files import save_text

            artefact = executable.artefact
            text = drawn(
                model.name,
                artefact,
                texts or [""] * len(artefact.kernels),
                profile,
                fixed,
                roof,
                figures["warnings"],
                report.get("verify"),
                modules,
            )
            _written(page, lambda path: save_text(path, text))
        if trace is not None:
            _written(trace, profile.save_trace)
    if as_json:
        print_json(report)
    else:
        _show(report)
    if failed:
        raise BurnError(f"the results differ from {verify}'s")


def _described(
    model: Path,
    dims: dict[str, int],
    opened: list[str],
    options: Options,
    threads: int | None,
) -> tuple[Executable, list[str], dict[str, Any]]:
    """The compiled model, with descriptions of its kernels, which are not cached on disk, and the modules of its nodes."""
    from burn.compiler import described
    from burn.loading import read_program, set_num_threads
    from burn.runtime.executable import Executable

    if threads is not None:
        set_num_threads(threads)
    program = read_program(model, dims, opened)
    modules = dict(program.node_modules)
    artefact, texts = described(program, options)
    return Executable(artefact, device=options.device), texts, modules


def _limits(model: Path, dims: dict[str, int], opened: list[str], specs: Any, given: dict[str, str]) -> dict[str, int]:
    """Upper limits of random integer inputs; reads the model again only if there are such inputs."""
    drawn = [s for s in specs if given.get(s.name, "random") == "random" and s.dtype.startswith(("int", "uint"))]
    if not drawn:
        return {}
    from burn.cli.ranges import index_limits
    from burn.loading import read_program

    return index_limits(read_program(model, dims, opened))


def _check_name(path: Path) -> None:
    if path.suffix != ".npz":
        raise BurnError(f"{path}: outputs are saved to .npz files")


def _save(path: Path, outputs: dict[str, Any]) -> None:
    """Written whole or not at all."""
    import numpy as np

    from burn.runtime.files import whole

    with whole(path) as file:
        np.savez(file, **outputs)


def _summary(name: str, array: Any) -> dict[str, Any]:
    import numpy as np

    row: dict[str, Any] = {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
    if array.size and array.dtype.kind not in "cOSU":
        values = array.astype(np.float64)
        finite = values[np.isfinite(values)]
        row["finite"] = bool(finite.size == values.size)
        if finite.size:
            row |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
    return row


def _written(path: Path, write: Callable[[Path], None]) -> None:
    """Writes a file as `write` does."""
    try:
        write(path)
    except OSError as error:
        raise BurnError(f"cannot write {path}", [error.strerror or str(error)]) from None


def _show(report: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("output", "type", "min", "max", "mean"):
        table.add_column(column, justify="left" if column in ("output", "type") else "right")
    for row in report["outputs"]:
        figures = [f"{row[k]:.6g}" if k in row else "" for k in ("min", "max", "mean")]
        table.add_row(row["name"], f"{row['dtype']}[{', '.join(map(str, row['shape']))}]", *figures)
    out.print(table)
    spread = (
        f" ({1000 * report['least']:.3f} to {1000 * report['most']:.3f})" if report["least"] < report["most"] else ""
    )
    out.print(f"loaded in {report['load_seconds']:.2f} s, ran in {1000 * report['seconds']:.3f} ms{spread}")
    if "verify" in report:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in ("compared", "largest difference", "relative", ""):
            table.add_column(column)
        for row in report["verify"]["outputs"]:
            verdict = Text("same") if row["same"] else Text(shown(row.get("reason", "differs")), style="red")
            table.add_row(row["name"], f"{row['absolute']:.3g}", f"{row['relative']:.3g}", verdict)
        out.print(table)
        if "first_difference" in report["verify"]:
            first = report["verify"]["first_difference"]
            out.print("every node's result is the same" if first is None else _first(first), markup=False)
    if "profile" in report:
        show_profile(out, report)


def _first(first: dict[str, Any]) -> str:
    return (
        f"first difference: value '{first['value']}' of node '{first['node']}' ({first['op']}): "
        f"{first['absolute']:.3g}, relative {first['relative']:.3g}"
    )


if __name__ == "__main__":
    sys.exit(main())
