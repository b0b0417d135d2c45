"""Compile times of large graphs, stage by stage: `python benchmarks/compile_time.py [--nodes 1000 10000]`.

There are five shapes of graphs: a deep chain of matmuls and pointwise ops, a transformer as exporters write it, mostly shape
arithmetic, many branches, and many small constants. It prints a row for each shape and size. A row has
seconds of CPU time in all and by stage, peak memory, and the growth of time: the exponent p of nodes^p since the size before.

Then it loads models from their files in fresh processes: a matmul, BERT-base and an encoder of 48 layers, with random weights.
Each has two rows: cold, with an empty cache, and warm, with the compiled program in the cache. A row has seconds from the start
of the process to the compiled program, seconds of CPU time, the part of these that numpy's import took, and peak memory. A cold
process writes the cache behind these seconds.

    python benchmarks/compile_time.py --nodes 10000 100000 --shapes chain --models      graphs alone
    python benchmarks/compile_time.py --shapes --models small BERT-base                 models alone
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from burn.runtime.model_identity import LARGE, SETTLED

Nodes = list[onnx.NodeProto]


class Maker:
    """A graph under construction."""

    def __init__(self) -> None:
        self.nodes: Nodes = []
        self.weights: list[onnx.TensorProto] = []
        self._generator = np.random.default_rng(0)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"node{len(self.nodes)}", **attributes))
        return name

    def weight(self, *shape: int) -> str:
        array = self._generator.standard_normal(shape).astype(np.float32) / math.sqrt(max(shape[0], 1))
        return self.constant(array)

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def model(self, output: str, *dims: int | str, dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "large",
            [helper.make_tensor_value_info("x", dtype, list(dims))],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def chain(count: int) -> onnx.ModelProto:
    """Matmuls, biases and activations, alternating, with weights and sizes that repeat."""
    make = Maker()
    x = "x"
    weights = [make.weight(32, 32) for _ in range(4)]
    while len(make.nodes) < count:
        x = make.op("MatMul", x, weights[len(make.nodes) % 4])
        x = make.op("Add", x, make.weight(32))
        x = make.op(("Relu", "Tanh", "Sigmoid")[len(make.nodes) % 3], x)
    return make.model(x, "batch", 32)


def transformer(count: int) -> onnx.ModelProto:
    """Layers of attention and feed-forward, with weights that are small: 36 nodes a layer."""
    make = Maker()
    width = 64
    x = "x"
    while len(make.nodes) < count:
        y = _attention(make, x, width, heads=4)
        z = make.op("Relu", make.op("MatMul", y, make.weight(width, 2 * width)))
        z = make.op("Add", make.op("MatMul", z, make.weight(2 * width, width)), y)
        x = _normalized(make, z, width)
    return make.model(x, "batch", "length", width)


def encoder(layers: int, width: int = 768, heads: int = 12, words: int = 30522) -> onnx.ModelProto:
    """BERT, from numbers of words to a vector for each: 48 nodes a layer."""
    make = Maker()
    x = make.op("Gather", make.weight(words, width), "x", axis=0)
    for _ in range(layers):
        y = _attention(make, x, width, heads)
        z = make.op("Add", make.op("MatMul", y, make.weight(width, 4 * width)), make.weight(4 * width))
        e = make.op("Erf", make.op("Div", z, make.constant(np.array(math.sqrt(2), np.float32))))
        e = make.op("Mul", z, make.op("Add", e, make.constant(np.array(1, np.float32))))
        e = make.op("Mul", e, make.constant(np.array(0.5, np.float32)))
        z = make.op("Add", make.op("MatMul", e, make.weight(4 * width, width)), make.weight(width))
        x = _normalized(make, make.op("Add", z, y), width)
    return make.model(x, "batch", "length", dtype=TensorProto.INT64)


def _attention(make: Maker, x: str, width: int, heads: int) -> str:
    """As exporters write it, with shapes read at run time."""
    shape = make.op("Shape", x)
    batch, length = (make.op("Gather", shape, make.constant(np.array(i))) for i in (0, 1))
    parts = [make.op("Unsqueeze", v, make.constant(np.array([0]))) for v in (batch, length)]
    split = make.op("Concat", *parts, make.constant(np.array([heads, width // heads])), axis=0)
    merged = make.op("Concat", *parts, make.constant(np.array([width])), axis=0)
    operands = []
    for _ in range(3):
        y = make.op("Add", make.op("MatMul", x, make.weight(width, width)), make.weight(width))
        operands.append(make.op("Transpose", make.op("Reshape", y, split), perm=[0, 2, 1, 3]))
    scores = make.op("MatMul", operands[0], make.op("Transpose", operands[1], perm=[0, 1, 3, 2]))
    scores = make.op("Div", scores, make.constant(np.array(math.sqrt(width // heads), np.float32)))
    scores = make.op("Softmax", scores, axis=-1)
    y = make.op("Reshape", make.op("Transpose", make.op("MatMul", scores, operands[2]), perm=[0, 2, 1, 3]), merged)
    return _normalized(make, make.op("Add", make.op("MatMul", y, make.weight(width, width)), x), width)


def _normalized(make: Maker, x: str, width: int) -> str:
    return make.op("LayerNormalization", x, make.weight(width), make.weight(width), axis=-1)


def shapes(count: int) -> onnx.ModelProto:
    """Mostly arithmetic on shapes, slices and joins, around little work."""
    make = Maker()
    x = "x"
    index = [make.constant(np.array(i)) for i in (0, 1)]
    axis = make.constant(np.array([0]))
    row = make.constant(np.array([-1, 8]))
    one = make.constant(np.array([1]))
    while len(make.nodes) < count:
        shape = make.op("Shape", x)
        first, second = (make.op("Gather", shape, i) for i in index)
        area = make.op("Mul", first, second)
        flat = make.op("Reshape", x, make.op("Unsqueeze", area, axis))
        y = make.op("Reshape", flat, row)
        size = make.op("Unsqueeze", make.op("Gather", make.op("Shape", y), index[0]), axis)
        left = make.op("Slice", y, make.op("Sub", size, size), size, axis, one)
        x = make.op("Mul", make.op("Add", left, y), make.constant(np.array(0.5, np.float32)))
    return make.model(x, "n", 8)


def wide(count: int) -> onnx.ModelProto:
    """Parallel branches of a matmul, a bias and an activation each, added up in pairs."""
    make = Maker()
    weights = [make.weight(32, 32) for _ in range(4)]
    branches = []
    for i in range(max(count // 4, 1)):
        y = make.op("Add", make.op("MatMul", "x", weights[i % 4]), make.weight(32))
        branches.append(make.op(("Relu", "Tanh", "Sigmoid")[i % 3], y))
    while len(branches) > 1:
        pairs = zip(branches[::2], branches[1::2], strict=False)
        branches = [*(make.op("Add", a, b) for a, b in pairs), *branches[len(branches) & ~1 :]]
    return make.model(branches[0], "batch", 32)


def constants(count: int) -> onnx.ModelProto:
    """Pointwise ops with constants of one and of a few elements, and multiplied sums of these."""
    make = Maker()
    x = "x"
    while len(make.nodes) < count:
        a = make.op("Mul", x, make.weight(32))
        b = make.op("Constant", value=numpy_helper.from_array(np.full((), 1 + len(make.nodes) % 7, np.float32)))
        c = make.op("Div", make.op("Add", make.weight(4), b), make.weight(4))
        d = make.op("Reshape", make.op("Concat", *[c] * 8, axis=0), make.constant(np.array([32])))
        x = make.op("Tanh", make.op("Add", make.op("Sub", a, d), b))
    return make.model(x, "batch", 32)


def small() -> onnx.ModelProto:
    """A matmul, a bias and an activation."""
    return chain(3)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "small": small,
    "BERT-base": lambda: encoder(12),
    "48 layers": lambda: encoder(48),
}

SHAPES: dict[str, Callable[[int], onnx.ModelProto]] = {
    "chain": chain,
    "transformer": transformer,
    "shapes": shapes,
    "wide": wide,
    "constants": constants,
}


def measure(shape: str, count: int) -> dict[str, float]:
    """Seconds of CPU time by stage and peak megabytes of one compilation, in this process."""
    from burn import compiler
    from burn.importers.onnx import import_onnx
    from burn.options import Options
    from burn.passes import pipeline

    model = SHAPES[shape](count)
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(name: str):
        start = time.process_time()
        yield
        seconds[name] = seconds.get(name, 0.0) + time.process_time() - start

    import_onnx(SHAPES[shape](50))  # modules and the dialect are loaded by then
    start = time.process_time()
    with timed("import"):
        program = import_onnx(model)
    environment = compiler.environment()
    for each in pipeline.parse(compiler.backend_for().pipeline.text):
        with timed(each.name):
            each.run(program, environment)
    with timed("code"):
        compiler.compile_program(program, Options(passes=""))
    seconds["total"] = time.process_time() - start
    return {
        **seconds,
        "nodes": len(model.graph.node),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


LOAD = r"""
import json, re, sys, time
start = time.process_time()
import numpy
numpy_import = time.process_time() - start
import burn
burn.load(sys.argv[1])
peak = re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]
print(json.dumps([time.monotonic(), time.process_time(), numpy_import, int(peak) / 1024]))
"""
"""getrusage would report the parent's memory, if that was more."""

WARM = 5
"""Warm starts of a model; the row has the one with the median CPU time."""


def starts(name: str) -> list[str]:
    """The rows of a model: fresh processes that compile it, and that find it in the cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(MODELS[name]().SerializeToString())
        settled = time.time() + SETTLED + 1
        environment = os.environ | {"BURN_CACHE_DIR": f"{folder}/cache"}
        environment.pop("BURN_CACHE_SIZE", None)
        # Bytecode as an installation has it, written by a first process.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
        first = Path(folder) / "first.onnx"
        first.write_bytes(MODELS["small"]().SerializeToString())
        command = [sys.executable, "-c", LOAD, str(first)]
        subprocess.run(
            command, check=True, capture_output=True, env=environment | {"BURN_CACHE_DIR": f"{folder}/first"}
        )

        def load() -> tuple[float, float, float, float]:
            start = time.monotonic()
            command = [sys.executable, "-c", LOAD, str(path)]
            child = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            end, *rest = json.loads(child.stdout)
            return (end - start, *rest)

        cold = load()
        if path.stat().st_size >= LARGE:
            time.sleep(max(0.0, settled - time.time()))  # a file that has just changed is read anew at each load
            load()
        warm = sorted((load() for _ in range(WARM)), key=lambda row: row[1])[WARM // 2]
        size = path.stat().st_size / 1e6
    return [
        f"{name:12} {state}  {wall:7.2f} s {peak:6.0f} MB  ({cpu:.3f} s of CPU, of numpy {numpy_:.3f}; file of {size:.0f} MB)"
        for state, (wall, cpu, numpy_, peak) in (("cold", cold), ("warm", warm))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 3000, 10000])
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--one", action="store_true", help="measure one shape and size here, and print JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.shapes[0], options.nodes[0])))
        return
    for shape in options.shapes:
        before: dict[str, float] | None = None
        for count in options.nodes:
            command = [sys.executable, __file__, "--one", "--shapes", shape, "--nodes", str(count)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            stages = " ".join(f"{k} {v:.1f}" for k, v in row.items() if k not in ("nodes", "megabytes", "total"))
            growth = ""
            if before is not None:
                power = math.log(row["total"] / before["total"]) / math.log(row["nodes"] / before["nodes"])
                growth = f"  ~n^{power:.2f}"
            print(
                f"{shape:12}{row['nodes']:7.0f} nodes {row['total']:7.1f} s {row['megabytes']:6.0f} MB{growth}  ({stages})",
                flush=True,
            )
            before = row
    for name in options.models:
        print(*starts(name), sep="\n", flush=True)


if __name__ == "__main__":
    main()
