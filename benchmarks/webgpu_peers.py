"""burn's WebGPU back end beside tinygrad's and IREE's Vulkan back end, on one adapter: the models of webgpu.py as ONNX files.

    python benchmarks/webgpu_peers.py                                 # all models, by burn, per op too, and tinygrad
    python benchmarks/webgpu_peers.py --model ResNet --iree ada       # one, by IREE too
    python benchmarks/webgpu_peers.py --small --iree vp_android_baseline_2022    # small models, for a device that is no GPU

    python benchmarks/webgpu_peers.py --folder F --iree ada --prepare    # the files alone, without weights
    python benchmarks/webgpu_peers.py --folder F --jobs 12               # elsewhere: with the files of F

Files need what webgpu.py needs, onnxscript, and for IREE iree-base-compiler. Runs need onnx and numpy. IREE needs the package
iree-base-runtime. tinygrad needs its package, and `libwebgpu_dawn.so` of the package dawn-python in a folder of LD_LIBRARY_PATH.
It evaluates a model's constants on the CPU by clang, or by the command of CC, if that takes clang's arguments.

Matrices are drawn at random here, the same for each library. Each library runs in a process of its own. A process makes its first
result, and with --jobs several do so at a time; times are measured when all are ready, one after another. A time is the median of
calls with inputs on the device, until the result is on the host. A difference is the largest, relative to burn's largest value.

The two convolutions of --small on llvmpipe with two busy cores, milliseconds of a call: burn 30, tinygrad 75, IREE 3.13 48.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

LEAST = 1000
"""Elements of a matrix whose values are drawn; smaller tensors, and vectors, are in the ONNX file."""

WORDS = 30000
"""Less than the words of a vocabulary."""

LEVELS = ("O3", "O2", "O0")
"""Of IREE's optimiser: the first that compiles a model is used."""

Call = Callable[[], np.ndarray]


# The files


def export(module: Any, x: Any, path: Path) -> None:
    """Writes an ONNX file whose matrices are in a file beside it, which is not written."""
    import onnx
    import torch
    from onnx import TensorProto, external_data_helper

    torch.onnx.export(module.eval(), (x,), str(path), verbose=False, external_data=False, input_names=["x"])
    model = onnx.load(path)
    offset = 0
    for each in model.graph.initializer:
        if each.data_type == TensorProto.FLOAT and len(each.dims) > 1 and math.prod(each.dims) >= LEAST:
            size = 4 * math.prod(each.dims)
            external_data_helper.set_external_data(each, f"{path.name}.data", offset, size)
            each.ClearField("raw_data")
            offset += size
    path.write_bytes(model.SerializeToString())


def draw(path: Path) -> None:
    """Writes the matrices of a model, normal values that are scaled so that activations keep their size, and its input."""
    import onnx
    from onnx import TensorProto

    data = Path(f"{path}.data")
    if data.exists():
        return
    graph = onnx.load(path, load_external_data=False).graph
    generator = np.random.default_rng(0)
    with open(data, "wb") as file:
        for each in graph.initializer:
            if each.data_location == TensorProto.EXTERNAL:
                scale = np.float32((2 / math.prod(each.dims[1:])) ** 0.5)
                file.write((generator.standard_normal(tuple(each.dims), np.float32) * scale).tobytes())
    given = graph.input[0].type.tensor_type
    shape = tuple(each.dim_value for each in given.shape.dim)
    x = generator.standard_normal(shape, np.float32)
    np.save(
        path.with_suffix(".npy"), x if given.elem_type == TensorProto.FLOAT else generator.integers(WORDS, size=shape)
    )


def compile_for_iree(path: Path, target: str) -> None:
    """Writes a .vmfb file beside the model. Weights are parameters, given when it is loaded."""
    program = path.with_suffix(".mlir")
    parameters = ["--externalize-params", "--no-save-params", f"--num-elements-threshold={LEAST}", "--large-model"]
    subprocess.run(["iree-import-onnx", path, *parameters, "--no-verify", "-o", program], check=True)
    command = ["iree-compile", program, "--iree-hal-target-device=vulkan", f"--iree-vulkan-target={target}"]
    for level in LEVELS:
        run = subprocess.run(
            [*command, f"--iree-opt-level={level}", "-o", path.with_suffix(".vmfb")], capture_output=True
        )
        print(f"{path.name}: --iree-opt-level={level} {'fails' if run.returncode else 'compiles'}", flush=True)
        if not run.returncode:
            break
        path.with_suffix(".vmfb").unlink(missing_ok=True)
    program.unlink()


def prepare(folder: Path, name: str, make: Callable[[], Any], target: str) -> None:
    path = folder / f"{name.replace(' ', '-')}.onnx"
    if not path.exists():
        import torch

        torch.manual_seed(0)
        module, x = make()
        export(module, x, path)
    if target:
        compile_for_iree(path, target)


# The libraries


def by_burn(model: Path, x: np.ndarray) -> tuple[Call, str]:
    import burn
    from burn.runtime.device import device

    loaded = burn.load(model, cache=False, device="wgpu", exact=True)
    given = burn.tensor(x).to("wgpu")
    return lambda: np.asarray(loaded(given)), device("wgpu").facts()["name"]


def by_burn_per_op(model: Path, x: np.ndarray) -> tuple[Call, str]:
    """Each node of the file is a program and a submission of its own. Nodes of constants run once, before the calls."""
    import onnx
    from onnx import helper

    import burn
    from burn.runtime.device import device

    whole = onnx.load(model)
    graph = whole.graph
    (given,) = graph.input
    constants = {each.name: each for each in graph.initializer}
    inferred = onnx.shape_inference.infer_shapes(whole).graph.value_info
    types = {each.name: each for each in (given, *inferred, *graph.output)}
    kept: dict[str, Any] = {given.name: burn.tensor(x).to("wgpu")}
    varying, steps = {given.name}, []
    for node in graph.node:
        names = [name for name in dict.fromkeys(node.input) if name]
        computed = [name for name in names if name not in constants]
        outputs = [name for name in node.output if name]
        alone = helper.make_graph(
            [node], "node", [types[name] for name in computed], [types[name] for name in outputs],
            [constants[name] for name in names if name in constants],
        )  # fmt: skip
        alone = helper.make_model(alone, opset_imports=list(whole.opset_import))
        step = burn.load(alone, cache=False, device="wgpu", exact=True), computed, outputs
        if varying & set(computed):
            steps.append(step)
            varying |= set(outputs)
        else:
            take(step, kept)
    last = graph.output[0].name
    reads = {name: index for index, (_, inputs, _) in enumerate(steps) for name in inputs}

    def call() -> np.ndarray:
        """A value is freed after the last step that reads it."""
        current = dict(kept)
        for index, step in enumerate(steps):
            take(step, current)
            for name in step[1]:
                if reads[name] == index:
                    del current[name]
        return np.asarray(current[last])

    return call, f"{device('wgpu').facts()['name']}, {len(steps)} programs"


def take(step: tuple[Any, list[str], list[str]], values: dict[str, Any]) -> None:
    """Runs a node: its results are added to the values."""
    program, inputs, outputs = step
    results = program(*(values[name] for name in inputs))
    values |= zip(outputs, results if isinstance(results, tuple) else (results,), strict=True)


def by_tinygrad(model: Path, x: np.ndarray) -> tuple[Call, str]:
    os.environ["DEV"] = "WEBGPU"
    from tinygrad import Device, Tensor, TinyJit
    from tinygrad.nn.onnx import OnnxRunner

    runner = OnnxRunner(model)
    # A Gather whose constant indices have two axes raises TypeError, unless the indices stay a tensor.
    runner.const_names -= {each for each, value in runner.graph_values.items() if value is not None and value.ndim > 1}
    (name,) = runner.graph_inputs
    jitted = TinyJit(lambda given: next(iter(runner({name: given}).values())).realize())
    given = Tensor(x).realize()
    return lambda: jitted(given).numpy(), Device.DEFAULT


def by_iree(model: Path, x: np.ndarray) -> tuple[Call, str]:
    import onnx
    from iree import runtime as iree

    config = iree.Config("vulkan")
    index = iree.ParameterIndex()
    for each in onnx.load(model).graph.initializer:
        if math.prod(each.dims) >= LEAST:
            index.add_buffer(each.name, onnx.numpy_helper.to_array(each).tobytes())
    parameters = iree.create_io_parameters_module(config.vm_instance, index.create_provider(scope="model"))
    program = iree.VmModule.mmap(config.vm_instance, str(model.with_suffix(".vmfb")))
    (entry,) = (each for each in program.function_names if not each.startswith("__") and not each.endswith("$async"))
    called = iree.load_vm_modules(parameters, program, config=config)[1][entry]
    given = iree.asdevicearray(config.device, x)
    memory = sum(map(int, (iree.MemoryType.HOST_LOCAL, iree.MemoryType.HOST_CACHED, iree.MemoryType.DEVICE_VISIBLE)))
    usage = int(iree.BufferUsage.TRANSFER_TARGET | iree.BufferUsage.MAPPING_SCOPED)
    staging: list[Any] = []

    def call() -> np.ndarray:
        """Not by DeviceArray.to_host, which fails in Vulkan: it gives numpy's memory to the driver, unaligned."""
        result = called(given)._buffer_view
        if not staging:
            staging.append(config.device.allocator.allocate_buffer(memory, usage, result.byte_length))
        semaphore = config.device.create_semaphore(0)
        done = iree.HalFence.create_at(semaphore, 1)
        config.device.queue_copy(result.get_buffer(), staging[0], iree.HalFence.create_at(semaphore, 0), done)
        done.wait()
        return staging[0].map().asarray(result.shape, np.dtype(np.float32))

    return call, iree.get_driver("vulkan").query_available_devices()[0]["name"]


LIBRARIES = {"burn": by_burn, "burn-per-op": by_burn_per_op, "tinygrad": by_tinygrad, "iree": by_iree}


# The runs


def timed(call: Call, calls: int, seconds: float) -> float:
    """Milliseconds of a call: the median of so many, or of as many as the seconds allow."""
    for _ in range(3):
        call()
    found: list[float] = []
    while len(found) < calls and (not found or sum(found) < 1e3 * seconds):
        start = time.perf_counter()
        call()
        found.append(1e3 * (time.perf_counter() - start))
    return statistics.median(found)


def one(library: str, model: Path, calls: int, seconds: float) -> None:
    """Writes the first result beside the model, and prints its time and the device; then, asked for them, times."""
    x = np.load(model.with_suffix(".npy"))
    start = time.perf_counter()
    call, where = LIBRARIES[library](model, x)
    np.save(model.with_suffix(f".{library}.npy"), call())
    print(json.dumps({"first": time.perf_counter() - start, "device": where}), flush=True)
    if sys.stdin.readline():
        print(json.dumps({"ms": timed(call, calls, seconds)}), flush=True)


class Run:
    """A model by a library, in a process."""

    def __init__(self, wanted: tuple[str, Path], arguments: argparse.Namespace) -> None:
        self.library, self.model = library, model = wanted
        self.found: dict[str, Any] = {}
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed with this object
        model.with_suffix(f".{library}.npy").unlink(missing_ok=True)  # of an earlier run
        command = [sys.executable, __file__, "--one", library, "--calls", str(arguments.calls)]
        self.process = subprocess.Popen(
            [*command, "--seconds", str(arguments.seconds), str(model)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )  # fmt: skip
        self.read(arguments.timeout)

    def read(self, timeout: float) -> None:
        """The next line of the process, which is ended after so many seconds without one."""
        assert self.process.stdout
        latest = time.monotonic() + timeout
        timer = threading.Timer(timeout, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if line:
            self.found |= json.loads(line)
            return
        self.process.wait()
        self.log.seek(0)
        lines = [each for each in self.log.read().splitlines() if each.strip()]
        late = time.monotonic() >= latest
        self.found["error"] = f"no result within {timeout:g} s" if late else (lines or ["no message"])[-1][-300:]

    def time(self, timeout: float) -> None:
        if "error" not in self.found:
            assert self.process.stdin
            with contextlib.suppress(BrokenPipeError):  # it has ended: `read` gives its message
                self.process.stdin.write("\n")
                self.process.stdin.flush()
            self.read(timeout)
        self.process.kill()
        self.process.wait()

    def difference(self) -> float | None:
        """From burn's result."""
        results = [self.model.with_suffix(f".{library}.npy") for library in ("burn", self.library)]
        if self.library == "burn" or not all(each.exists() for each in results):
            return None
        a, b = map(np.load, results)
        return float(np.abs(a - b).max() / np.abs(a).max())

    def line(self) -> str:
        """The times, or the error."""
        if "error" in self.found:
            return f"{self.library}: {self.found['error']}"
        difference = self.difference()
        shown = f"{self.library}: {self.found['ms']:.3f} ms, first result after {self.found['first']:.1f} s"
        return f"{shown} ({self.found['device']})" + (
            f", difference {difference:.1e}" if difference is not None else ""
        )


def compare(models: list[Path], libraries: list[str], arguments: argparse.Namespace) -> None:
    """Prints a line for each model and library."""
    wanted = [
        (library, model)
        for model in models
        for library in libraries
        if library != "iree" or model.with_suffix(".vmfb").exists()
    ]
    for model in models:
        draw(model)
    if arguments.jobs > 1:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            runs: Iterable[Run] = list(pool.map(lambda each: Run(each, arguments), wanted))
    else:
        runs = (Run(each, arguments) for each in wanted)
    for run in runs:
        run.time(arguments.timeout)
        print(f"{run.model.stem}, {run.line()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="of --one: the model")
    parser.add_argument("--model", default="", help="models whose names contain it")
    parser.add_argument("--small", action="store_true", help="small models, for a device that is no GPU")
    parser.add_argument("--folder", type=Path, help="where models are written, or lie; a temporary folder by default")
    parser.add_argument(
        "--iree", default="", metavar="TARGET", help="compile the models for this Vulkan target of IREE"
    )
    parser.add_argument("--prepare", action="store_true", help="write the models and no weights, and run nothing")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="separated by commas")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5, help="of calls, after which no more are made")
    parser.add_argument("--timeout", type=float, default=600, help="seconds until a first result, and for the times")
    parser.add_argument("--jobs", type=int, default=1, help="processes that make first results at a time")
    parser.add_argument("--one", choices=LIBRARIES, help="run this library here")
    arguments = parser.parse_args()
    if arguments.one:
        one(arguments.one, arguments.file, arguments.calls, arguments.seconds)
        return
    folder = arguments.folder or Path(tempfile.mkdtemp())
    try:
        if arguments.prepare or arguments.iree or not list(folder.glob("*.onnx")):
            from webgpu import models, small

            folder.mkdir(parents=True, exist_ok=True)
            for name, make in (small() if arguments.small else models()).items():
                if arguments.model in name:
                    prepare(folder, name, make, arguments.iree)
        found = sorted(each for each in folder.glob("*.onnx") if arguments.model.replace(" ", "-") in each.name)
        if not arguments.prepare:
            compare(found, arguments.libraries.split(","), arguments)
    finally:
        if not arguments.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
