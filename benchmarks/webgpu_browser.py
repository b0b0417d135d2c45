"""Packages for WebGPU beside onnxruntime-web, in headless Chromium on one adapter:

    npm install --prefix FOLDER onnxruntime-web
    python -m benchmarks.webgpu_browser --peer FOLDER --write benchmarks/webgpu_browser.md

Both run the same ONNX file on the same inputs, from a server on this machine, and must give burn's outputs on the CPU. The first
result is timed in a new browser without caches, from the import of the engine's module on. The steady state alternates between
the engines in one page. The CPU seconds of Chromium's processes are counted too: they say more than times if the adapter is
SwiftShader, on a CPU with other work."""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import burn
from benchmarks.registry import subject
from burn.deploy.build import build
from burn.deploy.gpus import find
from burn.deploy.options import Options
from burn.loading import read_program
from burn.toolchain import platforms
from tests.deploy.browser import Browser, browser, served

ENGINES = ("burn", "onnxruntime-web")
TOLERANCE = 1e-3  # of each output's largest value
PEER = "node_modules/onnxruntime-web/dist"
PEER_FILES = ("ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm")
TICKS = os.sysconf("SC_CLK_TCK")

PAGE = """<!doctype html><title>engines</title><script type="module">
const values = (dtype, list) => dtype === "int64" ? BigInt64Array.from(list, BigInt) : new Float32Array(list);
const plain = (outputs) => Object.fromEntries(Object.entries(outputs).map(([name, data]) => [name, Array.from(data, Number)]));

/** A function that runs an engine once, and gives the outputs' elements. */
async function burn(feeds) {
  const { load } = await import("./package/index.js");
  const model = await load(undefined, { fallback: "none" });
  const inputs = Object.fromEntries(feeds.map(([name, dtype, dims, list]) => [name, { data: values(dtype, list), dims }]));
  return async () => Object.fromEntries(Object.entries(await model.run(inputs)).map(([name, { data }]) => [name, data]));
}

async function peer(feeds) {
  const ort = await import("./peer/ort.webgpu.min.mjs");
  ort.env.wasm.wasmPaths = new URL("./peer/", location.href).href;
  const session = await ort.InferenceSession.create("./model.onnx", { executionProviders: ["webgpu"] });
  const tensor = ([name, dtype, dims, list]) => [name, new ort.Tensor(dtype, values(dtype, list), dims)];
  const inputs = Object.fromEntries(feeds.map(tensor));
  return async () => {
    const made = await session.run(inputs);
    const data = async ([name, tensor]) => [name, await tensor.getData()];
    return Object.fromEntries(await Promise.all(Object.entries(made).map(data)));
  };
}

const runs = {};
/** Milliseconds to the first result, and that. */
window.start = async (engine, feeds) => {
  const began = performance.now();
  runs[engine] = await (engine === "burn" ? burn : peer)(feeds);
  const outputs = await runs[engine]();
  return [performance.now() - began, plain(outputs)];
};
/** Milliseconds of each of so many calls. */
window.repeat = async (engine, count) => {
  const times = [];
  for (let i = 0; i < count; i++) {
    const began = performance.now();
    await runs[engine]();
    times.push(performance.now() - began);
  }
  return times;
};
</script>"""


@dataclass
class Figures:
    """Of one engine: seconds to first results, milliseconds of calls, CPU seconds of calls, bytes to load besides weights."""

    first: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    bytes: int = 0


def measure(name: str, peer: Path, rounds: int, calls: int) -> dict[str, Figures]:
    """Raises SystemExit for an engine with other results."""
    known = subject(name, {})
    wanted = burn.load(known.path).run(known.feeds)
    feeds = [[k, str(v.dtype), list(v.shape), v.ravel().tolist()] for k, v in known.feeds.items()]
    found = {engine: Figures() for engine in ENGINES}
    with tempfile.TemporaryDirectory() as scratch, served(Path(scratch)) as address:
        folder = Path(scratch)
        _write(folder, known.path, peer)
        for engine, figures in found.items():
            figures.bytes = _bytes(folder, engine)
        for _ in range(rounds):
            for engine, figures in found.items():
                with browser(gpu=True) as page:
                    page.visit(f"{address}/index.html")
                    figures.first.append(_start(page, engine, feeds, wanted) / 1e3)
        with browser(gpu=True) as page:
            page.visit(f"{address}/index.html")
            for engine in ENGINES:
                _start(page, engine, feeds, wanted)
            for _ in range(rounds + 1):
                for engine, figures in found.items():
                    began = _cpu_seconds()
                    figures.calls += page.awaits("return repeat(...given)", engine, calls, seconds=600)
                    figures.cpu.append((_cpu_seconds() - began) / calls)
    for figures in found.values():
        del figures.calls[:calls], figures.cpu[:1]  # warm-up
    return found


def _write(folder: Path, model: Path, peer: Path) -> None:
    gpus = (find("wgpu:webgpu"),)
    build("wasm", read_program(model), folder / "package", Options(platforms.find("wasm32"), gpus=gpus))
    shutil.copyfile(model, folder / "model.onnx")
    (folder / "peer").mkdir()
    for file in PEER_FILES:
        shutil.copyfile(peer / PEER / file, folder / "peer" / file)
    (folder / "index.html").write_text(PAGE)


def _bytes(folder: Path, engine: str) -> int:
    """Gzipped, of all files that a page reads but the weights and burn's kernels."""
    own = ("index.js", "gpu.js", "picture.js", "errors.js", "model-software.wasm")
    files = (
        [folder / "package" / file for file in own]
        if engine == "burn"
        else [folder / "peer" / file for file in PEER_FILES]
    )
    return sum(len(gzip.compress(path.read_bytes())) for path in files)


def _start(page: Browser, engine: str, feeds: Sequence[object], wanted: Mapping[str, Any]) -> float:
    page.waits_for("window.start")
    milliseconds, outputs = page.awaits("return start(...given)", engine, feeds, seconds=600)
    for name, array in wanted.items():
        error = np.abs(np.reshape(outputs[name], array.shape) - array).max() if array.size else 0
        if not error <= TOLERANCE * max(1.0, float(np.abs(array).max())):
            raise SystemExit(f"{engine}: {name} differs by {error}")
    return milliseconds


def _cpu_seconds() -> float:
    """Of all processes under this one."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = int(fields[11]) + int(fields[12])

    def is_ours(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return sum(count for pid, count in ticks.items() if pid != os.getpid() and is_ours(pid)) / TICKS


def table(figures: Mapping[str, Mapping[str, Figures]]) -> list[str]:
    lines = [
        "| | first result, s | of peer | call, ms | of peer | CPU s a call | of peer | kB gzipped | peer |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    totals = [1.0, 1.0, 1.0]
    for name, engines in figures.items():
        own, peer = (engines[engine] for engine in ENGINES)
        cells = [f"| {name} "]
        for number, (mine, theirs, digits) in enumerate(
            ((own.first, peer.first, 1), (own.calls, peer.calls, 1), (own.cpu, peer.cpu, 3))
        ):
            ratio = median(mine) / max(median(theirs), 1e-9)
            totals[number] *= ratio
            cells.append(f"| {median(mine):.{digits}f} | {ratio:.2f} ")
        lines.append("".join(cells) + f"| {own.bytes / 1e3:.0f} | {peer.bytes / 1e3:.0f} |")
    means = [math.pow(total, 1 / len(figures)) for total in totals]
    lines.append(f"| geometric mean | | {means[0]:.2f} | | {means[1]:.2f} | | {means[2]:.2f} | | |")
    return lines


def page(figures: Mapping[str, Mapping[str, Figures]], about: str) -> str:
    head = [
        "# WebGPU in a browser",
        "",
        f"Written by `python -m benchmarks.webgpu_browser` on {time.strftime('%Y-%m-%d')}: {about}.",
        'Figures are medians. "of peer" is the time of burn over that of onnxruntime-web with the provider `webgpu`: below 1',
        "burn is ahead. The first result is timed in a new browser, from the import of the engine's module. Every output is",
        "within 0.1 % of its largest value of burn's on the CPU. Bytes are of scripts and modules, without weights and kernels.",
        "SwiftShader runs on the CPU: its CPU seconds depend least on other processes.",
        "",
    ]
    return "\n".join([*head, *table(figures)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, required=True, help="the folder of npm's node_modules")
    parser.add_argument("--models", nargs="+", default=["mnist", "mobilenet", "minilm", "ultraface"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=5, help="of each engine in a round")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    figures = {}
    for name in given.models:
        figures[name] = measure(name, given.peer, given.rounds, given.calls)
        print("\n".join(table({name: figures[name]})[2:3]), flush=True)
    with browser(gpu=True) as opened, tempfile.TemporaryDirectory() as scratch, served(Path(scratch)) as address:
        (Path(scratch) / "index.html").write_text("<!doctype html>")
        opened.visit(address)
        asked = "const a = await navigator.gpu.requestAdapter(); return `${a.info.vendor} ${a.info.architecture}`"
        version = json.loads((given.peer / "node_modules/onnxruntime-web/package.json").read_text())["version"]
        chromium = opened.run("return navigator.userAgent.match(/Chrome\\/(\\d+)/)[1]")
        about = f"onnxruntime-web {version}, Chromium {chromium}, adapter {opened.awaits(asked)}, {os.cpu_count()} CPUs"
    text = page(figures, about)
    print(text)
    if given.write:
        given.write.write_text(text)


if __name__ == "__main__":
    main()
