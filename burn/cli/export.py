"""`burn export`: a model in Python, or in a file that burn reads, becomes an ONNX or a StableHLO file."""

from __future__ import annotations

import inspect
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from burn.cli.common import (
    Named,
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
from burn.cli.objects import find
from burn.errors import BurnError, Problem

if TYPE_CHECKING:
    from burn.dialect.program import Program

TOLERANCE = 1e-4  # largest difference, relative to an output's largest value
TRACED_SIZE = 4  # what PyTorch sees of a size that varies


@command
@click.argument("model")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="the file to write: .onnx, or StableHLO as .mlir (text), .stablehlo or .jax",
)
@click.option("--opset", type=int, help="of the file; 21 by default")
@click.option(
    "--input",
    "inputs",
    type=Named(),
    multiple=True,
    callback=once,
    help="NAME=TYPE, as in 'x=float32[batch,784]'; repeatable",
)
@click.option(
    "--weights", type=click.Path(path_type=Path), help="a file with the module's weights (.safetensors, .pt ...)"
)
@click.option("--external-data", is_flag=True, help="keep the weights in OUTPUT.data; by default when they pass 1.9 GB")
@click.option("--verify", type=click.Choice(["onnxruntime"]), help="compare the file's results with burn's")
@click.option(
    "--dim", "dims", type=Size(), multiple=True, callback=once, help="size of a symbol, for --verify; repeatable"
)
@click.option("--seed", type=Seed(), default=0, show_default=True, help="of the inputs for --verify")
@click.option(
    "--tolerance",
    type=Tolerance(),
    default=TOLERANCE,
    show_default=True,
    help="difference relative to the largest value",
)
@click.option("--json", "as_json", is_flag=True, help="report as JSON on stdout")
def main(
    model: str,
    output: Path,
    opset: int | None,
    inputs: tuple[tuple[str, str], ...],
    weights: Path | None,
    external_data: bool,
    verify: str | None,
    dims: tuple[tuple[str, int], ...],
    seed: int,
    tolerance: float,
    as_json: bool,
) -> None:
    """Write MODEL as an ONNX file, or as StableHLO: text (.mlir), a portable artefact (.stablehlo), or a jax.export (.jax).

    MODEL is file.py:Name or package.module:Name (a burn.nn.Module or a torch.nn.Module, its class, a function of
    tensors, or a JAX function), or an .onnx, .mlir or .pt2 file."""
    start = time.perf_counter()
    if dims and not verify:
        raise click.UsageError("--dim goes with --verify: sizes that have names stay dynamic")
    progress = Progress(3 if verify else 2)
    progress(f"reading {model}")
    program = read(model, dict(inputs), weights)
    from burn.exporting import STABLEHLO

    if output.suffix in STABLEHLO:
        if opset is not None or external_data or verify:
            raise click.UsageError("--opset, --external-data and --verify are for ONNX files")
        _stablehlo(program, output, start, as_json)
        return
    from burn.exporters.onnx import write

    rows: list[dict[str, Any]] = []

    def accept(path: Path) -> None:
        if verify:
            progress(f"comparing with {verify}")
            rows.extend(_compared(program, path, dict(dims), seed, tolerance))
            if not all(row["same"] for row in rows):
                problems = [f"{row['name']}: {row.get('reason') or _off(row)}" for row in rows if not row["same"]]
                raise BurnError(f"the results of {verify} differ from burn's: nothing is written", problems)

    progress(f"writing {output}")
    made = write(program, output, opset, external_data=external_data or None, accept=accept)
    operators = Counter(node.op_type for node in made.graph.node)
    beside = output.with_name(f"{output.name}.data")
    external = any(t.external_data for t in made.graph.initializer)
    report: dict[str, Any] = {
        "file": str(output),
        "external_data": str(beside) if external else None,
        "opset": made.opset_import[0].version,
        "ir_version": made.ir_version,
        "inputs": dict(zip(program.input_names, map(str, program.input_types), strict=True)),
        "outputs": [value.name for value in made.graph.output],
        "nodes": dict(operators.most_common()),
        "initializers": len(made.graph.initializer),
        "bytes": output.stat().st_size + (beside.stat().st_size if external else 0),
        "seconds": round(time.perf_counter() - start, 3),
    }
    if verify:
        report["verify"] = {"with": verify, "tolerance": tolerance, "outputs": rows}
    if as_json:
        print_json(report)
    else:
        _show(report, operators)


def _stablehlo(program: Program, output: Path, start: float, as_json: bool) -> None:
    from burn.exporting import write_stablehlo

    made = write_stablehlo(program, output)
    text = made if isinstance(made, str) else made.mlir_module()
    found = Counter(re.findall(r"\b(?:stablehlo|chlo)\.(\w+)", text))
    report = {
        "file": str(output),
        "inputs": dict(zip(program.input_names, map(str, program.input_types), strict=True)),
        "outputs": dict(zip(program.output_names, map(str, program.output_types), strict=True)),
        "ops": dict(found.most_common()),
        "bytes": output.stat().st_size,
        "seconds": round(time.perf_counter() - start, 3),
    }
    if as_json:
        print_json(report)
        return
    out = console()
    out.print(f"{output}: StableHLO, {report['bytes']:,} bytes, in {report['seconds']:.2f} s")
    out.print(f"inputs {', '.join(f'{n}: {t}' for n, t in report['inputs'].items()) or 'none'}")
    out.print(f"{sum(found.values())} ops: {', '.join(f'{count} {name}' for name, count in found.most_common(8))}")


def read(model: str, inputs: dict[str, str], weights: Path | None) -> Program:
    """The program that MODEL names. Raises BurnError."""
    if ":" not in Path(model).name:
        path = existing(model)
        if path.suffix == ".py":
            raise BurnError(f"{model} may hold several models", [Problem("say which", hint=f"{model}:Name")])
        if inputs or weights:
            raise BurnError(
                f"{model} has its inputs and weights in it", ["they are given to models in Python, file.py:Name"]
            )
        from burn.loading import read_program

        return read_program(path)
    return program_from(named_model(model, weights), inputs)


def program_from(found: Any, inputs: dict[str, str]) -> Program:
    """The program of a model in Python. Raises BurnError."""
    from burn.compiled import from_jax, is_torch
    from burn.exporting import program_of
    from burn.tracing.foreign import is_plain_jax

    if is_plain_jax(found):
        found = from_jax(found)
    if not is_torch(found):
        return program_of(found, inputs or None)
    return program_of(found, *_torch_examples(inputs))


def _torch_examples(inputs: dict[str, str]) -> tuple[dict[str, Any], dict[str, dict[int, str]]]:
    """Tensors of zeros for PyTorch to trace with, and the names of their sizes that vary."""
    import torch

    from burn.dialect.spec import spec
    from burn.importers.torch.dtypes import to_tensor
    from burn.runtime.dtypes import numpy_dtype

    examples: dict[str, torch.Tensor] = {}
    dynamic: dict[str, dict[int, str]] = {}
    for name, text in inputs.items():
        type_ = spec(text)
        sizes = [d if isinstance(d, int) else TRACED_SIZE for d in type_.shape]
        examples[name] = to_tensor(np.zeros(sizes, numpy_dtype(type_.dtype)))
        dynamic[name] = {i: str(d) for i, d in enumerate(type_.shape) if not isinstance(d, int)}
    return examples, {name: axes for name, axes in dynamic.items() if axes}


def named_model(text: str, weights: Path | None = None) -> Callable[..., Any]:
    """The module or function named "file.py:Name" or "package.module:Name". See `instance`."""
    return with_weights(instance(find(text), text), text, weights)


def instance(found: Any, text: str) -> Any:
    """A found object; a class is instantiated, and a function without parameters is called. Raises BurnError."""
    from burn.nn import Module

    if inspect.isclass(found) or (callable(found) and not isinstance(found, Module) and not _parameters(found)):
        variadic = (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        )  # all that a class without __init__ has
        needed = [p.name for p in _parameters(found) if p.default is p.empty and p.kind not in variadic]
        if needed:
            hint = "name a function without parameters that makes it"
            raise BurnError(
                f"{text} cannot be made without arguments", [Problem(f"it takes {', '.join(needed)}", hint=hint)]
            )
        found = found()
    return found


def with_weights(found: Any, text: str, weights: Path | None) -> Callable[..., Any]:
    """A model with the weights of a file. Raises BurnError."""
    from burn.nn import Module

    if not callable(found):
        raise BurnError(f"{text} is no model", [f"it is of type {type(found).__name__}, not a Module or a function"])
    if weights is not None:
        if not isinstance(found, Module):
            raise BurnError(f"{text} has no parameters to take from {weights}", ["--weights is for modules"])
        found.load(existing(weights))
    return found


def _parameters(found: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(found).parameters.values())
    except ValueError:
        return []


def _compared(program: Program, path: Path, sizes: dict[str, int], seed: int, tolerance: float) -> list[dict[str, Any]]:
    from burn.cli.verify import verify_outputs
    from burn.compiler import executable

    run = executable(program.copy())
    feeds, _ = make_inputs(run.inputs, {}, sizes, seed)
    return verify_outputs(path, feeds, run.run(feeds), tolerance)


def _off(row: dict[str, Any]) -> str:
    return f"the largest difference is {row['absolute']:.3g}, relative {row['relative']:.3g}"


def _show(report: dict[str, Any], operators: Counter[str]) -> None:
    out = console()
    most = ", ".join(f"{count} {name}" for name, count in operators.most_common(8))
    out.print(f"{report['file']}: opset {report['opset']}, {report['bytes']:,} bytes, in {report['seconds']:.2f} s")
    if report["external_data"]:
        out.print(f"weights in {report['external_data']}")
    out.print(f"inputs {', '.join(f'{n}: {t}' for n, t in report['inputs'].items()) or 'none'}")
    out.print(f"{sum(operators.values())} nodes: {most}{', ...' if len(operators) > 8 else ''}")
    for row in report.get("verify", {}).get("outputs", ()):
        out.print(f"{row['name']}: the same, {_off(row)}")


if __name__ == "__main__":
    sys.exit(main())
