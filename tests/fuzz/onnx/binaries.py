"""Binaries of a model, called as their users call them: a command with .npz files, a shared library through its C interface, and
a WebAssembly module in Node. Enter at `command`, `library` or `wasm`.

The binaries of one process go to one folder, which is gone when the process ends.
"""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from burn.deploy import platforms
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.importers.onnx import import_onnx
from burn.runtime.dtypes import numpy_dtype
from tests.deploy.making import Library

from .values import Array

Feed = dict[str, Array]
Run = Callable[[Feed], dict[str, Any]]
SECONDS = 120.0  # for one run of a binary

SCRIPT = """
import { load } from "./index.js";
import { readFileSync, writeFileSync } from "node:fs";
const feeds = JSON.parse(readFileSync("feeds.json"));
const made = { Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Uint8Array, Uint16Array, Uint32Array,
               BigInt64Array, BigUint64Array };
const model = await load();
const inputs = {};
for (const { name, file, dims, array } of feeds) {
  const bytes = readFileSync(file);
  inputs[name] = { data: new made[array](new Uint8Array(bytes).buffer), dims };
}
const outputs = [];
for (const [name, { data, dims }] of Object.entries(model.run(inputs))) {
  writeFileSync(`out${outputs.length}`, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  outputs.push({ name, dims });
}
console.log(JSON.stringify({ outputs, specs: model.outputs }));
"""


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
    (folder / "run.mjs").write_text(SCRIPT)

    def run(feed: Feed) -> dict[str, Any]:
        feeds = []
        for number, (name, array) in enumerate(feed.items()):
            (folder / f"in{number}").write_bytes(array.tobytes())
            kind = ARRAYS.get(array.dtype.name, "Uint8Array")
            feeds.append({"name": name, "file": f"in{number}", "dims": array.shape, "array": kind})
        (folder / "feeds.json").write_text(json.dumps(feeds))
        done = subprocess.run(["node", "run.mjs"], capture_output=True, text=True, timeout=SECONDS, cwd=folder)
        told = json.loads(_ended(done))
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
