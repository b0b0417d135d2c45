"""The time from the start of a process to a program's first result: `python benchmarks/starting.py --device cuda`.

The programs are a file of one op, a function of one op, and a file of BERT-base with random weights. Each runs in a process of
its own with an empty cache. It runs again with only the kernels in the cache, as for another program that has them, and with a
warm cache. A row has seconds from the start of Python to the result, and seconds of CPU time of the process and of those that
compile its kernels.

`--simulated` uses the simulated GPU of the tests. Kernels are compiled as for an H100, and launches do nothing. CPU time is that
of a machine with a GPU, without the driver's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compile_time import Maker, encoder

MODELS = ("one op", "one function", "BERT-base")
STATES = ("empty cache", "kernels cached", "warm cache")

CHILD = r"""
import json, resource, sys, time
model, device, driver = sys.argv[1:]
if driver:
    import ctypes
    nothing = ctypes.CFUNCTYPE(None)(lambda: None)
    ctypes.CDLL(driver).burn_simulated_on_launch(nothing)
import numpy as np
import burn
if model == "one function":
    run = burn.compile(lambda x: burn.ops.exp(x), ("float32[n, 64]",), device=device)
    result = run(np.ones((16, 64), np.float32))
else:
    run = burn.load(model, device=device)
    words = run.inputs[0].dtype == "int64"
    result = run(np.ones((1, 128), np.int64) if words else np.ones((16, 64), np.float32))
end = time.monotonic()
assert np.asarray(result).size
if "burn.codegen.triton.workers" in sys.modules:
    from burn.codegen.triton import workers
    workers.stop()  # so that their time is known
seconds = [sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([end, *seconds, "triton" in sys.modules]))
"""


def measure(model: str, device: str, driver: str, cache: Path) -> tuple[float, float, float]:
    """Seconds to the result, and CPU seconds of the process and of its children."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"BURN_CACHE_DIR": str(cache), "PYTHONPATH": path}
    if driver:
        environment["BURN_CUDA_DRIVER"] = driver
    start = time.monotonic()
    child = subprocess.run(
        [sys.executable, "-c", CHILD, model, device, driver],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    end, own, others, _ = json.loads(child.stdout.splitlines()[-1])
    return end - start, own, others


def rows(model: str, path: str, device: str, driver: str, folder: Path) -> None:
    """Prints a row for each state of the cache."""
    cache = folder / f"cache of {model}"
    for state in STATES:
        if state == "kernels cached":
            for entry in cache.glob("??/*.burn"):
                entry.unlink()
        elapsed, own, others = measure(path, device, driver, cache)
        kernels = len(list(cache.glob("??/*.kernel")))
        print(
            f"{model:12} {state:15} {elapsed:6.2f} s   CPU {own:5.2f} s + {others:5.2f} s   {kernels} kernels",
            flush=True,
        )


def simulated_driver(folder: Path) -> str:
    """The library of the tests' simulated GPU."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.runtime.simulation import another_driver

    return another_driver(folder)


def one_op() -> bytes:
    """A model of one op."""
    make = Maker()
    return make.model(make.op("Exp", "x"), "n", 64).SerializeToString()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--simulated", action="store_true", help="use the simulated GPU of the tests")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        driver = simulated_driver(folder) if options.simulated else ""
        print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {options.device}")
        for model in options.models:
            path = model
            if model != "one function":
                path = str(folder / f"{model}.onnx")
                Path(path).write_bytes(encoder(12).SerializeToString() if model == "BERT-base" else one_op())
            measure("one function", "cpu", "", folder / "bytecode")  # Python's bytecode files are there from now on
            rows(model, path, options.device, driver, folder)


if __name__ == "__main__":
    main()
