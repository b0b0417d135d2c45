"""A decoding step of a language model of 1B parameters with 4-bit weights on a GPU: time, and share of the bandwidth.

    python benchmarks/gpu_decode.py                      # Llama-style, 16 layers, in blocks of 32
    python benchmarks/gpu_decode.py --model gpt2-small-int4 --past 127

A step reads each weight once, so the bytes of the weights over the time are the bandwidth that it reaches. It is compared with
the bandwidth of a copy within the device's memory, measured in the same run. Before it come matmuls of 1, 8 and 64 rows with the
first weight of a hidden layer. Weights are random (rows/decoders.py).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from rows.decoders import DECODERS, feeds, write, write_matmul
from rows.shapes import Shape

import burn
from burn.runtime.device import device
from burn.runtime.device_array import to_device

CALLS, TURNS = 20, 7
COPIED = 1 << 29
ROWS = (1, 8, 64)
KERNELS = 12


def median(call: object, calls: int = CALLS) -> float:
    """Seconds of a call by the GPU's clock: the median over several turns of many calls each."""
    gpu = device("cuda").native
    times = []
    for _ in range(TURNS):
        first = gpu.mark()
        for _ in range(calls):
            call()  # type: ignore[operator]
        times.append(gpu.mark().since(first) / 1e9 / calls)
    return statistics.median(times)


def copy_bandwidth(bytes_: int = COPIED) -> float:
    """Bytes per second that a copy reads and writes."""
    gpu = device("cuda").native
    source, target = gpu.alloc(bytes_), gpu.alloc(bytes_)
    gpu.fill(source, 1, bytes_)
    return 2 * bytes_ / median(lambda: gpu.copy(target, source, bytes_), 5)


def step(shape: Shape, folder: Path, past: int, precision: str, bandwidth: float) -> None:
    """Prints the time of a step, and its slowest kernels."""
    path = folder / "decoder.onnx"
    write(shape, path)
    start = time.perf_counter()
    model = burn.load(path, device="cuda", dims={"past": past}, precision=precision)
    arrays = {name: to_device(array, "cuda") for name, array in feeds(shape, past).items()}
    scores = model.run(arrays, keep=True)["logits"]
    assert np.isfinite(np.asarray(scores.numpy(), np.float32)).all()
    print(f"  from the file to the first result: {time.perf_counter() - start:.1f} s")
    seconds = median(lambda: model.run(arrays, keep=True))
    reached = shape.weight_bytes / seconds
    print(
        f"  {seconds * 1e3:.3f} ms a step, {1 / seconds:.0f} tokens/s, {reached / 1e9:.0f} GB/s of weights: "
        f"{reached / bandwidth:.2f} of a copy"
    )
    rows = sorted(model.profile(**arrays).rows, key=lambda row: -row.seconds)
    whole = sum(row.seconds for row in rows)
    print(f"  kernels, each synchronised: {whole * 1e3:.3f} ms in {len(rows)}")
    for row in rows[:KERNELS]:
        share, sources = row.seconds / whole, ", ".join(row.kernel.sources)
        print(f"    {row.seconds * 1e6:8.1f} us {share:5.2f}  {row.kernel.kind:10} {sources[:70]}")


def matmuls(shape: Shape, folder: Path, precision: str, bandwidth: float) -> None:
    """Prints a row for each number of rows of x: the hidden layer's first weight."""
    path = folder / "matmul.onnx"
    write_matmul(shape, path)
    numbers = shape.width * shape.hidden
    weight_bytes = numbers * (0.5 + 4 / shape.block)
    for rows in ROWS:
        model = burn.load(path, device="cuda", dims={"rows": rows}, precision=precision)
        x = to_device(np.random.default_rng(0).standard_normal((rows, shape.width), np.float32), "cuda")
        seconds = median(lambda model=model, x=x: model.run({"x": x}, keep=True))
        share = weight_bytes / seconds / bandwidth
        print(
            f"  {rows:4} rows of {shape.width} x {shape.hidden}: {seconds * 1e6:7.1f} us, {share:.2f} of a copy, "
            f"{2 * rows * numbers / seconds / 1e12:.1f} TFLOP/s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", choices=[name for name, shape in DECODERS.items() if shape.block], default="llama-1b-int4"
    )
    parser.add_argument("--past", type=int, default=127, help="tokens before")
    parser.add_argument("--precision", nargs="+", default=["fp32", "fp16"])
    options = parser.parse_args()
    bandwidth = copy_bandwidth()
    shape = DECODERS[options.model]
    print(f"{device('cuda').facts()['name']}: a copy reads and writes {bandwidth / 1e9:.0f} GB/s")
    with tempfile.TemporaryDirectory() as name:
        for precision in options.precision:
            print(f"{options.model}, {precision}, weights of {shape.weight_bytes / 1e6:.0f} MB", flush=True)
            matmuls(shape, Path(name), precision, bandwidth)
            step(shape, Path(name), options.past, precision, bandwidth)


if __name__ == "__main__":
    main()
