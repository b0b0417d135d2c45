"""`burn-import`: a model becomes Python source and weights, or weights become those of a module (into.py)."""

from __future__ import annotations

import builtins
import keyword
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from burn.cli.common import Named, Progress, Size, command, console, existing, once, print_json
from burn.cli.into import Arguments, Renaming, load_into, refuse_weights
from burn.errors import BurnError, Problem

SOURCE, WEIGHTS = "model.py", "model.safetensors"


@command
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="the folder to write to, or the file with --into",
)
@click.option("--name", default="Model", show_default=True, help="of the class")
@click.option("--dim", "dims", type=Size(), multiple=True, callback=once, help="fix the size of a symbol; repeatable")
@click.option("--force", is_flag=True, help="overwrite files that are there")
@click.option(
    "--input",
    "inputs",
    type=Named(),
    multiple=True,
    callback=once,
    help="of a model in Python: NAME=TYPE, as in 'x=float32[batch,784]'",
)
@click.option("--into", help="load weights into a burn.nn.Module: file.py:Class or package.module:Class")
@click.option("--args", "arguments", type=Arguments(), default="{}", help="of the class, as a JSON object or list")
@click.option(
    "--remap", type=Renaming(), multiple=True, help="change tensors' names by a regular expression; repeatable"
)
@click.option("--partial", is_flag=True, help="let parameters be missing and tensors be left over")
@click.option("--dtype", help="element type for float parameters, or 'cast' to convert to what they are")
@click.option(
    "--adapter",
    type=click.Choice(["auto", "torch", "burn", "flax", "none"]),
    default="auto",
    show_default=True,
    help="whose names and layouts the weights have",
)
@click.option("--top-level-key", help="where in a torch checkpoint the state dict is")
@click.option("--json", "as_json", is_flag=True, help="report as JSON on stdout")
def main(
    model: Path,
    output: Path,
    name: str,
    dims: tuple[tuple[str, int], ...],
    inputs: tuple[tuple[str, str], ...],
    force: bool,
    into: str | None,
    as_json: bool,
    **loading: Any,
) -> None:
    """Write MODEL as a burn.nn module: OUTPUT/model.py and OUTPUT/model.safetensors.

    MODEL is an ONNX file, a .pt2 that torch.export saved, or file.py:Name (a PyTorch module or a JAX function, with --input).
    With --into, load MODEL (weights) into a module of yours and save that:
    OUTPUT is a .safetensors, .bpk, .npz or .msgpack file."""
    if into is not None:
        load_into(model, into, output, force=force, as_json=as_json, **loading)
        return
    in_python = ":" in model.name
    if not in_python:
        refuse_weights(model)
    start = time.perf_counter()
    if (reason := refused_name(name)) is not None:
        raise click.BadParameter(f"'{name}' {reason}", param_hint="--name")
    if not in_python:
        existing(model)
    elif dims:
        raise BurnError(f"{model} has its sizes in --input", [Problem("--dim is for models in files")])
    check_output(output, force)
    progress = Progress(3)

    progress(f"importing {model}")
    from burn.cli.export import read as read_python
    from burn.cli.facts import Facts
    from burn.exporters.python.generate import generate
    from burn.exporters.python.graph import read
    from burn.loading import read_program

    program = read_python(str(model), dict(inputs), None) if in_python else read_program(model, dict(dims))
    facts = Facts.of(read(program))
    progress("writing source, and tracing it back")
    source = generate(program, name, model.name)
    progress(f"writing {output / SOURCE} and {output / WEIGHTS}")
    from burn.importers.weights import safetensors

    with staged(output) as folder:
        (folder / SOURCE).write_text(source.text)
        safetensors.write(folder / WEIGHTS, source.tensors)
    seconds = time.perf_counter() - start
    lines = source.text.count("\n")
    if as_json:
        files = {"source": str(output / SOURCE), "weights": str(output / WEIGHTS)}
        print_json({**facts.as_json(), **files, "class": name, "lines": lines, "seconds": round(seconds, 3)})
        return
    out = console()
    facts.show(out)
    out.print(f"{name}: {lines} lines of source, {len(source.tensors)} tensors, in {seconds:.2f} s")


def refused_name(name: str) -> str | None:
    """Why a class cannot have this name; None where it can."""
    if not name.isidentifier() or keyword.iskeyword(name):
        return "is not a Python name"
    if name in ("burn", "nn", "ops", "annotations") or hasattr(builtins, name):
        return "means something else in the source already: choose another"
    return None


def check_output(output: Path, force: bool) -> None:
    """Raises BurnError where files would be overwritten, or the folder cannot be one."""
    if output.exists() and not output.is_dir():
        raise BurnError(f"{output} is a file, not a folder")
    there = [str(output / f) for f in (SOURCE, WEIGHTS) if (output / f).exists()]
    if there and not force:
        raise BurnError("files would be overwritten", [Problem(f, hint="--force overwrites") for f in there])


class staged:
    """A temporary folder whose files are moved to the output on success, and removed otherwise."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self._made: list[Path] = []

    def __enter__(self) -> Path:
        for folder in reversed([self.output.absolute(), *self.output.absolute().parents]):
            if not folder.exists():
                folder.mkdir()
                self._made.append(folder)
        self.folder = Path(tempfile.mkdtemp(prefix=".burn-import-", dir=self.output))
        return self.folder

    def __exit__(self, kind: type | None, *rest: object) -> None:
        try:
            if kind is None:
                for file in sorted(self.folder.iterdir()):
                    os.replace(file, self.output / file.name)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            if kind is not None:
                for folder in reversed(self._made):
                    folder.rmdir()


if __name__ == "__main__":
    sys.exit(main())
