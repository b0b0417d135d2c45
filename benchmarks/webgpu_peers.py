"""burn's WebGPU back end beside tinygrad's, on one adapter: the models of webgpu.py as ONNX files.

    python benchmarks/webgpu_peers.py                      # all models
    python benchmarks/webgpu_peers.py --model ResNet       # one
    python benchmarks/webgpu_peers.py --small              # small models, for a device that is no GPU

Needs what webgpu.py needs, onnxscript, and tinygrad with Dawn: `pip install tinygrad`, and the file `libwebgpu_dawn.so` of the
package dawn-python in a folder of LD_LIBRARY_PATH. tinygrad calls clang for models with computed constants. Each library runs in
a process of its own. A time is the median of calls with inputs on the device, until the result is on the host.

The two convolutions of --small on llvmpipe with two busy cores, milliseconds of a call: burn 30, tinygrad 75, IREE 3.13 through
Vulkan 48 (by `iree-benchmark-module --device=vulkan`). Results of burn and tinygrad agree within 2.7e-7.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CALLS = 20


def timed(call: Callable[[], Any], calls: int) -> float:
    """Milliseconds of a call."""
    for _ in range(3):
        call()
    found = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        found.append(1e3 * (time.perf_counter() - start))
    return statistics.median(found)


def by_burn(model: str, x: np.ndarray) -> tuple[Callable[[], np.ndarray], str]:
    import burn
    from burn.runtime.device import device

    loaded = burn.load(model, cache=False, device="wgpu")
    given = burn.tensor(x).to("wgpu")
    return lambda: np.asarray(loaded(given)), device("wgpu").facts()["name"]


def by_tinygrad(model: str, x: np.ndarray) -> tuple[Callable[[], np.ndarray], str]:
    os.environ["DEV"] = os.environ["WEBGPU"] = "WEBGPU"
    from tinygrad import Device, Tensor, TinyJit
    from tinygrad.nn.onnx import OnnxRunner

    runner = OnnxRunner(model)
    (name,) = runner.graph_inputs
    jitted = TinyJit(lambda given: next(iter(runner({name: given}).values())).realize())
    given = Tensor(x).realize()
    return lambda: jitted(given).numpy(), Device.DEFAULT


LIBRARIES = {"burn": by_burn, "tinygrad": by_tinygrad}


def one(library: str, model: str, data: str, calls: int) -> None:
    """Prints the time, that until the first result, and the device; writes the result beside the data."""
    x = np.load(data)
    start = time.perf_counter()
    call, where = LIBRARIES[library](model, x)
    result = call()
    first = time.perf_counter() - start
    np.save(f"{data}.{library}.npy", result)
    print(json.dumps({"ms": timed(call, calls), "first": first, "device": where}))


def compare(name: str, make: Callable[[], Any], calls: int) -> None:
    import torch

    torch.manual_seed(0)
    module, x = make()
    with tempfile.TemporaryDirectory() as folder:
        model, data = str(Path(folder) / "model.onnx"), str(Path(folder) / "x.npy")
        torch.onnx.export(module.eval(), (x,), model, verbose=False, external_data=False)
        np.save(data, x.numpy())
        rows = {}
        for library in LIBRARIES:
            command = [sys.executable, __file__, "--library", library, "--calls", str(calls), model, data]
            run = subprocess.run(command, capture_output=True, text=True)
            lines = run.stdout.splitlines()
            rows[library] = json.loads(lines[-1]) if not run.returncode else run.stderr.splitlines()[-1:]
        if all(isinstance(row, dict) for row in rows.values()):
            a, b = (np.load(f"{data}.{library}.npy") for library in LIBRARIES)
            rows["difference"] = float(np.abs(a - b).max() / np.abs(a).max())
            rows["ratio"] = rows["tinygrad"]["ms"] / rows["burn"]["ms"]
    print(name, json.dumps(rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="of --library: the model and its input")
    parser.add_argument("--model", default="", help="models whose names contain it")
    parser.add_argument("--small", action="store_true", help="small models, for a device that is no GPU")
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--library", choices=LIBRARIES, help="run this one here")
    arguments = parser.parse_args()
    if arguments.library:
        one(arguments.library, *arguments.files, arguments.calls)
        return
    from webgpu import models, small

    for name, make in (small() if arguments.small else models()).items():
        if arguments.model in name:
            compare(name, make, arguments.calls)


if __name__ == "__main__":
    main()
