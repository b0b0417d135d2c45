"""`burn quantize`: converts a float ONNX model to integers, and reports the loss of accuracy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from burn.cli.common import Progress, command, console, echo, existing, print_json
from burn.errors import BurnError

METHODS = ("minmax", "percentile", "mse")
WEIGHTS = ("int4", "int8")


@command
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="the .onnx file to write")
@click.option(
    "--calibrate", "calibration", type=click.Path(path_type=Path), multiple=True,
    help=".npy or .npz files, or folders of them: samples that tell activations' ranges; repeatable",
)  # fmt: skip
@click.option("--dynamic", is_flag=True, help="activations by their own range in every run: no samples needed")
@click.option("--weights", type=click.Choice(WEIGHTS), help="quantise weights alone, in blocks: no samples needed")
@click.option("--block", default=32, show_default=True, help="numbers of a block of --weights: a power of 2 from 16 on")
@click.option("--zero-points", is_flag=True, help="for --weights: blocks have zero points, too")
@click.option("--method", type=click.Choice(METHODS), default="minmax", show_default=True, help="how ranges are chosen")
@click.option(
    "--percentile", default=99.99, show_default=True, help="of elements within a range, for --method percentile"
)
@click.option("--activations", type=click.Choice(["uint8", "int8"]), default="uint8", show_default=True)
@click.option("--per-tensor", is_flag=True, help="one scale for each weight instead of one for each output channel")
@click.option("--exclude", multiple=True, metavar="NODE", help="a node that stays in floats, by its name; repeatable")
@click.option(
    "--evaluate", "evaluation", type=click.Path(path_type=Path), multiple=True,
    help="samples for the report; those of --calibrate by default; repeatable",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="report as JSON on stdout")
def main(
    model: Path,
    output: Path,
    calibration: tuple[Path, ...],
    dynamic: bool,
    weights: str | None,
    block: int,
    zero_points: bool,
    method: str,
    percentile: float,
    activations: str,
    per_tensor: bool,
    exclude: tuple[str, ...],
    evaluation: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Quantise MODEL, an ONNX file, to 8 bits, or its weights to 4.

    --calibrate quantises activations by the ranges of samples (QDQ), --dynamic by the ranges of each run.
    Weights are int8, symmetric, by output channel. --weights quantises only the weights of matmuls, in blocks."""
    start = time.perf_counter()
    if [dynamic, bool(calibration), weights is not None].count(True) != 1:
        raise click.UsageError("give --calibrate with samples, --dynamic or --weights")
    if output.resolve() == model.resolve():
        raise BurnError(f"{output} is the model itself")
    from burn.importers.onnx.check import check_model
    from burn.importers.onnx.file import read_model
    from burn.quantization import compare, quantize_dynamic, quantize_static, quantize_weights, read_samples, save

    progress = Progress(4 if calibration or evaluation else 3, as_json)
    progress(f"reading {model}")
    check_model(read_model(existing(model)))
    proto = _loaded(model)
    samples = [sample for path in calibration for sample in read_samples(proto, path)]
    judged = [sample for path in evaluation for sample in read_samples(proto, path)] or samples
    progress("quantising" if not calibration else f"calibrating with {len(samples)} samples")
    if weights is not None:
        made = quantize_weights(proto, weights=weights, block=block, zero_points=zero_points, exclude=exclude)
    elif dynamic:
        made = quantize_dynamic(proto, per_channel=not per_tensor, exclude=exclude)
    else:
        made = quantize_static(
            proto, samples, method=method, percentile=percentile, activations=activations, per_channel=not per_tensor,
            exclude=exclude,
        )  # fmt: skip
    progress(f"writing {output}")
    save(made, output)
    rows: list[dict[str, Any]] = []
    if judged:
        progress(f"comparing with the float model on {len(judged)} samples")
        rows = [vars(row) for row in compare(proto, made, judged)]
    sizes = {"before": proto.ByteSize(), "after": made.ByteSize()}
    if as_json:
        print_json({"output": str(output), "bytes": sizes, "samples": len(judged), "outputs": rows})
        return
    _show(rows)
    seconds = time.perf_counter() - start
    echo(f"{output}: {sizes['after'] / 1e6:.1f} MB instead of {sizes['before'] / 1e6:.1f}, in {seconds:.1f} s")
    if not judged:
        echo("accuracy was not measured: --evaluate takes samples")


def _loaded(path: Path) -> Any:
    import onnx

    return onnx.load(path)


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for name in ("output", "rows", "largest difference", "signal / noise", "same top 1"):
        table.add_column(name, justify="left" if name == "output" else "right")
    for row in rows:
        top = "" if row["top1"] is None else f"{100 * row['top1']:.2f} %"
        table.add_row(row["name"], str(row["rows"]), f"{row['largest']:.3g}", f"{row['noise']:.1f} dB", top)
    console().print(table)
