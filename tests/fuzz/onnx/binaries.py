"""Binaries of a model, called as their users call them: a command with .npz files, a shared library through its C interface, and
a WebAssembly module in Node. Enter at `command`, `library` or `wasm`.

The binaries of one process go to one folder, which is gone when the process ends.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import resource
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from burn.deploy.build import build
from burn.deploy.options import Options
from burn.importers.onnx import import_onnx
from burn.runtime.dtypes import numpy_dtype
from burn.toolchain import platforms
from tests.deploy.making import Library

from .values import Array

Feed = dict[str, Array]
Run = Callable[[Feed], dict[str, Any]]
SECONDS = 120.0  # for one run of a binary

SCRIPT = """
import { createInterface } from "node:readline";
import { readFileSync, writeFileSync } from "node:fs";
const made = { Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Uint8Array, Uint16Array, Uint32Array,
               BigInt64Array, BigUint64Array };
let last = "", model;
async function run(folder, feeds) {
  if (folder !== last) model = await (await import(`${folder}/index.js`)).load();
  last = folder;
  const inputs = {};
  for (const { name, file, dims, array } of feeds) {
    const bytes = readFileSync(`${folder}/${file}`);
    inputs[name] = { data: new made[array](new Uint8Array(bytes).buffer), dims };
  }
  const outputs = [];
  for (const [name, { data, dims }] of Object.entries(model.run(inputs))) {
    writeFileSync(`${folder}/out${outputs.length}`, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    outputs.push({ name, dims });
  }
  return { outputs, specs: model.outputs };
}
for await (const line of createInterface({ input: process.stdin })) {
  const { folder, feeds } = JSON.parse(line);
  console.log(JSON.stringify(await run(folder, feeds).catch((error) => ({ error: error.stack }))));
}
"""


class Node:
    """A process of Node that runs packages, until it has loaded `MODELS` of them: it frees no module that it has imported."""

    MODELS = 25
    SECONDS = 120.0  # for one run; a worker of the fuzzer has 240

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder, self._models = Path(), 0

    def run(self, folder: Path, feeds: list[dict[str, Any]]) -> dict[str, Any]:
        """The script's answer to a run. Raises RuntimeError with Node's error if it failed."""
        if folder != self._folder:
            self._folder, self._models = folder, self._models + 1
            if self._models > self.MODELS:
                self.close()
        if self._process is None:
            words = ["node", "--input-type=module", "-e", SCRIPT]
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            most = resource.getrlimit(resource.RLIMIT_AS)[1]
            # Node reserves 10 GB of addresses for each module, more than a worker may have.
            resource.prlimit(self._process.pid, resource.RLIMIT_AS, (most, most))
            self._models = 1
        said = self._asked(self._process, json.dumps({"folder": str(folder), "feeds": feeds}))
        try:
            told = json.loads(said)
        except json.JSONDecodeError:
            self.close()
            raise RuntimeError(f"Node said: {said}") from None
        if "error" in told:
            raise RuntimeError(told["error"])
        return told

    def _asked(self, process: subprocess.Popen[bytes], line: str) -> str:
        """The answer to a line; everything that Node wrote, if it ended or is stuck."""
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        said, until = b"", time.monotonic() + self.SECONDS
        while not said.endswith(b"}\n"):
            if not select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                return f"{said.decode(errors='replace')} (no answer after {self.SECONDS:g} seconds)"
            part = os.read(process.stdout.fileno(), 1 << 16)
            if not part:
                return f"{said.decode(errors='replace')} (exit status {process.wait()})"
            said += part
        return said.decode(errors="replace")

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@functools.cache
def _node(process: int) -> Node:
    """The one of a process, by its number: a forked worker has another."""
    node = Node()
    atexit.register(node.close)
    return node


def command(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    """`burn-compile -o model`, every other one with `--optimize size`."""
    folder = _folder()
    program = import_onnx(model.SerializeToString())
    options = Options(platforms.find(), target, small=bool(opset % 2))
    path = build("exe", program, folder / "model", options)[0]

    def run(feed: Feed) -> dict[str, Any]:
        np.savez(folder / "in.npz", allow_pickle=False, **feed)  # type: ignore[arg-type]
        words = [path, *([folder / "in.npz"] if feed else []), "-o", folder / "out.npz"]
        _ended(subprocess.run(words, capture_output=True, text=True, timeout=SECONDS))
        with np.load(folder / "out.npz") as made:
            return dict(made)

    return run


def library(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    """`burn-compile -o libmodel.so`, the weights in a file beside it for every other one."""
    folder = _folder()
    beside = bool(opset % 2)
    options = Options(platforms.find(), target, name="model", beside=beside)
    made = build("shared", import_onnx(model.SerializeToString()), folder / "libmodel.so", options)
    weights = next((path for path in made if path.suffix == ".safetensors"), None)
    called = Library(made[0], "model", (), weights)
    about = json.loads(called.function("about")())
    inputs, outputs = about["inputs"], about["outputs"]
    called.outputs = [_Spec(spec["dtype"]) for spec in outputs]  # type: ignore[assignment]

    def run(feed: Feed) -> dict[str, Any]:
        given = [(np.ascontiguousarray(feed[s["name"]]).reshape(feed[s["name"]].shape), s["dtype"]) for s in inputs]
        return dict(zip((spec["name"] for spec in outputs), called.run(given), strict=True))

    return run


def wasm(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    """`burn-compile --emit wasm`, called in Node."""
    from burn.deploy.wasm import ARRAYS

    folder = _folder()
    build("wasm", import_onnx(model.SerializeToString()), folder, Options(platforms.find("wasm32")))

    def run(feed: Feed) -> dict[str, Any]:
        feeds = []
        for number, (name, array) in enumerate(feed.items()):
            (folder / f"in{number}").write_bytes(array.tobytes())
            kind = ARRAYS.get(array.dtype.name, "Uint8Array")
            feeds.append({"name": name, "file": f"in{number}", "dims": array.shape, "array": kind})
        told = _node(os.getpid()).run(folder, feeds)
        dtypes = {spec["name"]: spec["dtype"] for spec in told["specs"]}
        return {
            output["name"]: np.frombuffer(
                (folder / f"out{number}").read_bytes(), numpy_dtype(dtypes[output["name"]])
            ).reshape(output["dims"])
            for number, output in enumerate(told["outputs"])
        }

    return run


class _Spec:
    def __init__(self, dtype: str) -> None:
        self.dtype = dtype


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="burn-binaries-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _ended(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
