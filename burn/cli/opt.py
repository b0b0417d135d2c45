"""`burn-opt`: run passes on a program in text form and print what comes out."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from burn.cli.common import echo
from burn.compiler import backend_for, environment
from burn.dialect.program import Program
from burn.dialect.text import parse_text, to_text
from burn.dialect.weights import Weight
from burn.errors import BurnError, ModelError
from burn.kernels.text import program_text
from burn.options import Options
from burn.passes import pipeline
from burn.passes.fold import drop_unused_weights
from burn.passes.verify import Verify
from burn.runtime import registry
from burn.runtime.device import Device
from burn.runtime.files import save_text


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("source", required=False, metavar="FILE|-")
@click.option("--passes", default=None, help='passes in order, such as "simplify,fuse{max-ops=64}"; none by default')
@click.option(
    "--emit",
    type=click.Choice(["ir", "kernels", *registry.languages()]),
    default="ir",
    show_default=True,
    help="what to print",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="write there; weights go beside it"
)
@click.option("--print-ir-after-all", is_flag=True, help="print the program behind every pass, to standard error")
@click.option("--verify-each", is_flag=True, help="verify the program behind every pass")
@click.option("--stats", is_flag=True, help="print a table of the passes, to standard error: time, ops, what each did")
@click.option("--locations", is_flag=True, help="print the source location of every op")
@click.option("--list", "list_passes", is_flag=True, help="list the passes and their options")
def main(
    source: str | None,
    passes: str | None,
    emit: str,
    output: Path | None,
    print_ir_after_all: bool,
    verify_each: bool,
    stats: bool,
    locations: bool,
    list_passes: bool,
) -> None:
    """Run passes on FILE, a program as MLIR text (- for standard input). An ONNX model is imported first. Weights are
    read from a .safetensors file of the same name where there is one.

    --emit kernels prints the loops and index maps of every fused group, under its source nodes. It runs the passes of a
    compilation for this machine by default.

    --emit triton prints the kernels as a Python module in Triton's language, --emit wgsl as WGSL, after the
    passes for a GPU.

    --emit mlir prints them as MLIR for this machine."""
    if list_passes:
        echo(describe())
        return
    if source is None:
        raise click.UsageError("FILE is missing: a path, or - for standard input")
    try:
        language = registry.languages().get(emit)
        asked = Options() if language is None else Options(device=Device(language), architecture=registry.PORTABLE)
        backend = backend_for(asked)
        if passes is None:
            passes = "" if emit == "ir" else backend.pipeline.text
        chosen = pipeline.parse(passes)
        program = read(source)
        backend = backend.session(program)

        def after(each: pipeline.Pass) -> None:
            if print_ir_after_all:
                echo(f"// ---- after {each.name} ----\n{to_text(program, locations)}", err=True)
            if verify_each:
                Verify().run(program)

        ran: list[pipeline.Ran] = []
        pipeline.run(chosen, program, environment(backend), after, ran.append)
        if stats:
            echo(table_of(ran), err=True)
        for each in ran:
            if each.counts.get(pipeline.LIMIT):
                echo(f"the pass '{each.name}' {pipeline.LIMIT}", err=True)
        if emit == "kernels":
            write_text(program_text(program, backend.preferences), output)
        elif language is not None:
            write_text(backend.printer.listing(program), output)
        else:
            write(program, output, locations)
    except BurnError as error:
        echo(str(error), err=True)
        sys.exit(1)


def describe() -> str:
    """Every pass with its options and the first paragraph of its documentation."""
    lines = []
    for name, cls in sorted(pipeline.available().items()):
        options = " ".join(f"{f.name.replace('_', '-')}={_text(f.default)}" for f in dataclasses.fields(cls))
        lines.append(f"{name}{'{' + options + '}' if options else ''}")
        paragraph = (cls.__doc__ or "").strip().split("\n\n")[0]
        lines += [f"    {line.strip()}" for line in paragraph.splitlines()]
    return "\n".join(lines)


def table_of(ran: Sequence[pipeline.Ran]) -> str:
    """The statistics of passes, a line each."""
    lines = [f"{'pass':<16}{'ms':>10}{'ops before':>12}{'after':>8}"]
    for each in ran:
        told = ", ".join(f"{name}: {count}" for name, count in each.counts.items() if count)
        row = f"{each.name:<16}{1000 * each.seconds:>10.2f}{each.ops_before:>12}{each.ops_after:>8}  {told}"
        lines.append(row.rstrip())
    return "\n".join(lines)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read(source: str) -> Program:
    """The program in a file, or on standard input. Raises ModelError."""
    if source == "-":
        return parse_text(sys.stdin.read())
    from burn.importers.stablehlo.recognition import recognise

    path = Path(source)
    if path.suffix == ".onnx":
        from burn.importers.onnx import import_onnx

        return import_onnx(path)
    try:
        content = path.read_bytes()
        if recognise(content, path.name):
            from burn.importers.stablehlo.build import import_stablehlo

            return import_stablehlo(path)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot read {path}", [getattr(error, "strerror", None) or str(error)]) from None
    return parse_text(text, weights_beside(path), source)


def weights_beside(path: Path) -> dict[str, Weight]:
    """The constants in the .safetensors file that goes with a program's text; none where there is no such file."""
    from burn.importers.weights import safetensors

    beside = path.with_suffix(".safetensors")
    return safetensors.read(beside) if beside.exists() else {}


def write(program: Program, output: Path | None, locations: bool) -> None:
    """Prints the program, or writes it to a file and its weights beside."""
    text = to_text(program, locations)
    if output is None:
        write_text(text, None)
        return
    from burn.importers.weights import safetensors

    drop_unused_weights(program)
    weights = dict(program.weights.items())
    try:
        if weights:
            safetensors.write(output.with_suffix(".safetensors"), weights)
    except OSError as error:
        raise BurnError(f"cannot write {output}", [error.strerror or str(error)]) from None
    write_text(text, output)


def write_text(text: str, output: Path | None) -> None:
    """Prints a text, or writes it to a file. Raises BurnError."""
    if output is None:
        echo(text)
        return
    try:
        save_text(output, text + "\n")
    except OSError as error:
        raise BurnError(f"cannot write {output}", [error.strerror or str(error)]) from None


if __name__ == "__main__":
    main()
