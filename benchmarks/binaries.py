"""Compiled models beside other engines that run without Python: `python benchmarks/binaries.py build`, then `measure`, `write`.

The peers are ONNX Runtime's and tract's C libraries and IREE's tools, out of their wheels, and the C code of emx-onnx-cgen:

    python -m venv VENV && VENV/bin/pip install onnxruntime tract iree-base-compiler iree-base-runtime emx-onnx-cgen

Every engine runs the same file with fixed sizes, on one thread, and must give burn's first output. `measure` keeps figures in a
JSON file, so that models can be measured one by one; `write` makes binaries.md of it.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx

import burn
from benchmarks.registry import subject

HERE = Path(__file__).parent
MODELS = ("mnist", "ultraface", "seeded_resnet50", "minilm.dynamo", "lstm.torchscript")
UNPADDED = "-Wl,-z,noseparate-code,-z,norelro,-z,common-page-size=64"
"""By default a linker begins sections at pages of 4 KiB each, which rounds a small program's size up to one of few."""

PROGRAM = ["-O2", "-std=gnu11", "-w", "-s", "-Wl,--gc-sections", UNPADDED]
GENERATED = ["-O3", "-std=gnu11", "-w", "-s", "-Wl,--gc-sections", UNPADDED]
CPUS = {"x86-64-v3": "avx2", "x86-64-v4": "avx512", "sapphirerapids": "amx"}
"""The names of CPUs for GCC and burn-compile, for sizes of programs that need not run here."""

IREE = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
]
STARTS = 7
SLOW = 8.0  # seconds of starts, after which no other begins
SECONDS = 1.0  # of timed runs
TOLERANCE = 1e-3  # of the first output's largest value

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Model:
    """A file with fixed sizes, inputs, and the outputs that burn gives."""

    name: str
    path: Path
    folder: Path  # where everything that is built of it lies
    feeds: Mapping[str, Array]
    wanted: Mapping[str, Array]

    @property
    def weights(self) -> int:
        """Bytes of the weights in the file."""
        tensors = list(onnx.load(self.path).graph.initializer)
        return sum(len(tensor.SerializeToString()) for tensor in tensors)

    @property
    def given(self) -> list[str]:
        """The inputs as the peers' programs take them."""
        words = []
        for number, (name, array) in enumerate(self.feeds.items()):
            dims = ",".join(map(str, array.shape))
            words.append(f"{name}:{'i' if array.dtype == np.int64 else 'f'}:{dims}:{self.folder / f'{number}.raw'}")
        return words

    @staticmethod
    def of(name: str, work: Path) -> Model:
        known = subject(name, {})
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        feeds = {k: np.ascontiguousarray(v) for k, v in known.feeds.items()}
        path = folder / "model.onnx"
        executable = burn.load(known.path)
        wanted = executable.run(feeds)
        if not path.exists():
            onnx.save(_fixed(onnx.load(known.path), {**feeds, **wanted}), path)
        for number, array in enumerate(feeds.values()):
            array.tofile(folder / f"{number}.raw")
            np.save(folder / f"{number}.npy", array)
        np.savez(folder / "in.npz", **dict[str, Any](feeds))
        return Model(name, path, folder, feeds, wanted)


def _fixed(model: onnx.ModelProto, arrays: Mapping[str, Array]) -> onnx.ModelProto:
    """The model with fixed sizes of these inputs and outputs. Declared types of intermediate values are dropped, and
    initializers are no longer inputs."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    for value in (*inputs, *model.graph.output):
        shape = value.type.tensor_type.shape
        del shape.dim[:]
        for size in arrays[value.name].shape:
            shape.dim.add().dim_value = size
    del model.graph.input[:], model.graph.value_info[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 8)  # in older ones every initializer is an input
    return model


@dataclass(frozen=True)
class Built:
    """A model as an engine's binary.

    `answer`: one inference from start to end, whose first output `read` gives. `timed`: the least and the median milliseconds of
    some runs. `size`: bytes on disk of all required files except weights."""

    answer: list[str]
    read: Callable[[], Array]
    timed: Callable[[int], tuple[float, float]]
    size: int


def run(*words: str | Path, **options: Any) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)
    if done.returncode:
        said = [
            line for line in (done.stderr + done.stdout).splitlines() if re.search("error|fail", line, re.IGNORECASE)
        ]
        raise RuntimeError((said or [f"exit status {done.returncode}"])[-1].strip())
    return done.stdout


def bytes_of(*files: Path) -> int:
    return sum(file.stat().st_size for file in files)


# ---- the engines: each builds if need be ----------------------------------------------------------------------------


def with_burn(model: Model, peers: Path) -> Built:
    return _burn(model, "burn", "static", ())


def with_small_burn(model: Model, peers: Path) -> Built:
    return _burn(model, "burn_small", "small", ("--optimize", "size"))


def _burn(model: Model, name: str, into: str, told: Sequence[str]) -> Built:
    program, folder = model.folder / name, model.folder / into
    _linked_burn(model, program, folder, told)
    return _peer(model, program, folder / "model.safetensors", bytes_of(program))


def _linked_burn(model: Model, program: Path, folder: Path, told: Sequence[str]) -> None:
    if not program.exists():
        compiler = Path(sys.executable).parent / "burn-compile"
        words = ["--emit", "static", "--name", "model", "--weights", "file", *told]
        run(compiler, model.path, "-o", folder, *words)
        sources = [HERE / "peers" / "peer.c", HERE / "peers" / "burn.c"]
        run("cc", *PROGRAM, *sources, f"-I{folder}", folder / "libmodel.a", "-lpthread", "-lm", "-o", program)


def with_onnxruntime(model: Model, peers: Path) -> Built:
    library = next(site(peers).glob("onnxruntime/capi/libonnxruntime.so.*"))
    return _linked(model, "onnxruntime", library, "libonnxruntime.so.1")


def with_tract(model: Model, peers: Path) -> Built:
    return _linked(model, "tract", next(site(peers).glob("tract/*.so")), "libtract.so")


def _linked(model: Model, engine: str, library: Path, name: str) -> Built:
    """A program in C and the engine's library, stripped."""
    folder = model.folder.parent / engine
    program, stripped = folder / engine, folder / name
    if not program.exists():
        folder.mkdir(exist_ok=True)
        run("strip", "-o", stripped, library)
        sources = [HERE / "peers" / "peer.c", HERE / "peers" / f"{engine}.c"]
        run("cc", *PROGRAM, *sources, stripped, "-Wl,-rpath,$ORIGIN", "-o", program)
    return _peer(model, program, model.path, bytes_of(program, stripped, model.path) - model.weights)


def _peer(model: Model, program: Path, file: Path, size: int) -> Built:
    out = model.folder / f"{program.name}.raw"

    def command(runs: int) -> list[str]:
        return [str(program), str(file), str(runs), str(out), *model.given]

    def timed(runs: int) -> tuple[float, float]:
        least, middle = run(*command(runs)).split()
        return float(least), float(middle)

    shape = next(iter(model.wanted.values())).shape
    return Built(command(0), lambda: np.fromfile(out, np.float32).reshape(shape), timed, size)


def with_emx(model: Model, peers: Path) -> Built:
    program, data = _linked_emx(model, peers, "native"), model.folder / "model.bin"
    return _peer(model, program, data, _emx_bytes(model, program))


def _linked_emx(model: Model, peers: Path, cpu: str) -> Path:
    program, code, data = model.folder / f"emx_{cpu}", model.folder / "emx.c", model.folder / "model.bin"
    if not code.exists():
        run(peers / "bin" / "emx-onnx-cgen", "compile", model.path, code, "--model-name", "model", cwd=model.folder)
    if not program.exists():
        glue = model.folder / "emx_peer.c"
        glue.write_text(_emx_glue(model, data.exists()))
        sources, told = [HERE / "peers" / "peer.c", glue, code], [f"-march={cpu}", f"-I{HERE / 'peers'}"]
        run("cc", *GENERATED, *told, *sources, "-lm", "-o", program)
    return program


def _emx_bytes(model: Model, program: Path) -> int:
    data = model.folder / "model.bin"
    return bytes_of(*([program, data] if data.exists() else [program])) - model.weights


def _emx_glue(model: Model, has_file: bool) -> str:
    outputs = "".join(f"static _Alignas(64) char out{i}[{a.nbytes}];\n" for i, a in enumerate(model.wanted.values()))
    given = [f"inputs[{i}].data" for i in range(len(model.feeds))]
    given += [f"out{i}" for i in range(len(model.wanted))]
    load = '    if (!model_load(path)) fail(path, "cannot be read");\n' if has_file else ""
    return f"""#include "peer.h"
void model();
_Bool model_load(const char *path);
{outputs}
void peer_open(const char *path, const input *inputs, int count) {{
{load}}}

const void *peer_run(const input *inputs, int count, size_t *bytes) {{
    model({", ".join(given)});
    *bytes = sizeof out0;
    return out0;
}}
"""


def with_iree(model: Model, peers: Path) -> Built:
    text, module, out = (model.folder / name for name in ("iree.mlir", "iree.vmfb", "iree.npy"))
    if not module.exists():
        run(peers / "bin" / "iree-import-onnx", model.path, "-o", text, "--opset-version", "17")
        compiler = [peers / "bin" / "iree-compile", text, "-o", module, *IREE]
        try:
            run(*compiler, "--iree-opt-level=O3")
        except RuntimeError:  # its default, where that takes too much stack
            run(*compiler)
    tools = site(peers) / "iree" / "_runtime_libs"
    program = model.folder.parent / "iree-run-module"
    if not program.exists():
        run("strip", "-o", program, tools / "iree-run-module")
    inputs = [f"--input=@{model.folder / f'{i}.npy'}" for i in range(len(model.feeds))]
    told = ["--device=local-sync", f"--module={module}", f"--function={entry(text)}", *inputs]

    def timed(runs: int) -> tuple[float, float]:
        said = run(
            tools / "iree-benchmark-module", *told, "--benchmark_format=json", f"--benchmark_repetitions={min(runs, 9)}",
            f"--benchmark_min_time={max(1, runs // 9)}x", "--time_unit=ms",
        )  # fmt: skip
        times = [
            b["real_time"] for b in json.loads(said[said.index("{") :])["benchmarks"] if b["run_type"] != "aggregate"
        ]
        return min(times), median(times)

    outputs = [f"--output=@{out}", *["--output="] * (len(model.wanted) - 1)]
    size = bytes_of(program, module) - model.weights
    return Built([str(program), *told, *outputs], lambda: np.load(out), timed, size)


def entry(text: Path) -> str:
    """The function that the importer wrote."""
    with text.open() as file:
        line = next(line for line in file if "func.func @" in line)
    return line.split("@", 1)[1].split("(")[0]


def site(peers: Path) -> Path:
    return next(peers.glob("lib/python*/site-packages"))


ENGINES: dict[str, Callable[[Model, Path], Built]] = {
    "burn": with_burn,
    "burn, small": with_small_burn,
    "ONNX Runtime": with_onnxruntime,
    "tract": with_tract,
    "IREE": with_iree,
    "emx-onnx-cgen": with_emx,
}
PACKAGES = {
    "ONNX Runtime": "onnxruntime",
    "tract": "tract",
    "IREE": "iree_base_compiler",
    "emx-onnx-cgen": "emx_onnx_cgen",
}


LIBRARY = "library"
"""Not an engine: burn's shared library beside `burn.load`."""

SIZES = "sizes"
"""Not an engine: bytes of small programs and of emx-onnx-cgen's, for each kind of CPU."""


# ---- figures ---------------------------------------------------------------------------------------------------------


def measured(
    model: Model, engine: str, peers: Path, launch: Path
) -> dict[str, float] | dict[str, list[int]] | list[float] | str:
    """The figures of one engine, or why there are none."""
    if engine == LIBRARY:
        return library_beside_process(model)
    if engine == SIZES:
        return sizes_by_cpu(model, peers)
    try:
        built = ENGINES[engine](model, peers)
        starts: list[list[str]] = []
        began = time.perf_counter()
        while len(starts) < STARTS and time.perf_counter() - began < SLOW:
            starts.append(run(launch, *built.answer).split())
        want = next(iter(model.wanted.values()))
        off = float(np.abs(built.read().astype(np.float64) - want).max() / np.abs(want).max())
        if not off <= TOLERANCE:
            return f"differs by {off:.1e}"
        once = built.timed(1)[1]
        least, middle = built.timed(int(np.clip(SECONDS * 1e3 / max(once, 1e-3), 3, 1000)))
    except (RuntimeError, OSError, ValueError) as error:
        return str(error)[:160]
    return {
        "least": least,
        "time": middle,
        "size": built.size,
        "memory": min(int(kib) for _, kib in starts),
        "start": median(float(ms) for ms, _ in starts),
    }


def sizes_by_cpu(model: Model, peers: Path) -> dict[str, list[int]] | str:
    """Bytes of burn's small program and of emx-onnx-cgen's, for each of CPUS."""
    found = {}
    try:
        for cpu, own in CPUS.items():
            program = model.folder / f"burn_small_{own}"
            _linked_burn(model, program, model.folder / f"small_{own}", ("--optimize", "size", "--cpu", own))
            found[cpu] = [bytes_of(program), _emx_bytes(model, _linked_emx(model, peers, cpu))]
    except RuntimeError as error:
        return str(error)[:160]
    return found


def _shared_library(model: Model) -> Path:
    from burn.deploy.build import build
    from burn.loading import read_program

    folder = model.folder / "shared"
    if not folder.exists():
        build("shared", read_program(model.path), folder)
    return next(folder.glob("*.so"))


def library_beside_process(model: Model) -> list[float]:
    """Least milliseconds of a call in this process, and of the shared library's, interleaved."""
    from tests.deploy.making import Library, feeds_of

    executable = burn.load(model.path, threads=1)
    library = Library(_shared_library(model), "shared", executable.outputs)
    library.function("set_threads")(1)
    inputs = feeds_of(executable.inputs, model.feeds)
    calls = (lambda: executable.run(model.feeds), lambda: library.run(inputs))
    least = [float("inf")] * 2
    began = time.perf_counter()
    while time.perf_counter() - began < 3 * SECONDS:
        for which, call in enumerate(calls):
            start = time.perf_counter()
            call()
            least[which] = min(least[which], (time.perf_counter() - start) * 1e3)
    library.close()
    return least


# ---- the page --------------------------------------------------------------------------------------------------------

COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "least": ("Time of an inference, ms (least)", lambda ms: f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"),
    "time": ("Time of an inference, ms (median)", lambda ms: f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"),
    "size": (
        "Size on disk without weights, KB",
        lambda size: f"{size / 1000:,.0f}" if size > 1e5 else f"{size / 1000:.1f}",
    ),
    "memory": ("Most memory, MB", lambda kib: f"{kib * 1024 / 1e6:.1f}"),
    "start": ("From start to the first answer, ms (median)", lambda ms: f"{ms:.1f}" if ms < 100 else f"{ms:.0f}"),
}


NOTES = """
emx-onnx-cgen writes only plain loops over arrays of fixed sizes: no threads, no other sizes, no errors. The size of its code
depends on how GCC unrolls loops for a CPU. "burn, small" is `burn-compile --optimize size`.

By default, linkers align sections to pages of memory, which hides differences between programs of this size. With default
flags mnist's small program has 18.9 KB, and emx-onnx-cgen's 18.0 or 22.1, depending on the rest of a page after its weights.
Not counted: burn's file has weights in panels of whole vectors. For mnist these are 6.5 KB larger than the ONNX file's
numbers.
"""


def page(figures: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{engine} {version}" for engine, version in figures["versions"].items())
    lines = [
        "# Compiled models beside other engines",
        "",
        f"Written by `python benchmarks/binaries.py` on {figures['date']}: {figures['cpu']}; {versions}.",
        "One thread, one process for each result; every engine's first output equals burn's within 0.1 %. One small program in C",
        "(`peers/peer.c`) is linked to burn's static library, ONNX Runtime's and tract's C libraries, and emx-onnx-cgen's C code",
        "(`gcc -O3 -march=native`). IREE is `iree-run-module` (for times `iree-benchmark-module`) with a module for this CPU.",
        f"All files are stripped, and programs in C are linked with `{UNPADDED}`.",
        "The size includes all required files except the system's libraries and the weights (the ONNX file's, and burn's file of",
        "weights). Memory is the resident set, including the weights.",
        "",
    ]
    for key, (title, shown) in COLUMNS.items():
        lines += [f"## {title}", "", table(figures["models"], key, shown), ""]
    lines += ["## The shared library beside `burn.load`, ms (least, interleaved)", ""]
    lines += ["| | `burn.load` | library | ratio |", "| --- | --- | --- | --- |"]
    for name, row in figures["models"].items():
        ours, library = row[LIBRARY]
        lines.append(f"| {name} | {ours:.3g} | {library:.3g} | {library / ours:.2f} |")
    lines += ["", "## Small programs for each kind of CPU, bytes without weights", "", *sizes(figures["models"])]
    failures = [
        f"- {name}, {engine}: {row.get(engine, 'not measured')}"
        for name, row in figures["models"].items()
        for engine in ENGINES
        if isinstance(row.get(engine, ""), str)
    ]
    missing = ["", "## What is missing above", "", *failures] if failures else []
    return "\n".join([*lines, NOTES, *missing[1:], ""] if missing else [*lines, NOTES])


def sizes(models: Mapping[str, Any]) -> list[str]:
    """burn's small programs beside emx-onnx-cgen's, one row a model."""
    lines = ["| | " + " | ".join(f"{cpu}: burn | emx-onnx-cgen" for cpu in CPUS) + " |"]
    lines.append("| --- " * (2 * len(CPUS) + 1) + "|")
    for name, row in models.items():
        if not isinstance(row[SIZES], str) and not isinstance(row["emx-onnx-cgen"], str):
            pairs = [[f"**{n:,}**" if n == min(pair) else f"{n:,}" for n in pair] for pair in row[SIZES].values()]
            lines.append(f"| {name} | " + " | ".join(cell for pair in pairs for cell in pair) + " |")
    return lines


def table(models: Mapping[str, Any], key: str, shown: Callable[[float], str]) -> str:
    """One row a model; the least is bold."""
    lines = [f"| | {' | '.join(ENGINES)} |", "| --- " * (len(ENGINES) + 1) + "|"]
    for name, row in models.items():
        values = {engine: row[engine][key] for engine in ENGINES if not isinstance(row.get(engine, ""), str)}
        least = min(values.values())
        cells = [
            ""
            if engine not in values
            else f"**{shown(values[engine])}**"
            if values[engine] == least
            else shown(values[engine])
            for engine in ENGINES
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "measure", "write"])
    parser.add_argument("--peers", type=Path, required=True, help="a virtual environment with the peers")
    parser.add_argument("--work", type=Path, required=True, help="where everything is built; figures.json is there")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--engines", nargs="+", default=[*ENGINES, LIBRARY, SIZES])
    parser.add_argument("--output", type=Path, default=HERE / "binaries.md")
    given = parser.parse_args(words)
    given.work.mkdir(parents=True, exist_ok=True)
    kept = given.work / "figures.json"
    figures: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"models": {}}
    launch = given.work / "launch"
    if not launch.exists():
        run("cc", *PROGRAM, HERE / "peers" / "launch.c", "-o", launch)
    if given.what == "write":
        figures["models"] = {name: figures["models"][name] for name in MODELS}
        given.output.write_text(page(figures))
        return
    figures |= {"date": time.strftime("%Y-%m-%d"), "cpu": _cpu(), "versions": _versions(given.peers)}
    for name in given.models:
        model = Model.of(name, given.work)
        for engine in given.engines:
            if given.what == "build":
                print(name, engine, built(model, engine, given.peers), flush=True)
                continue
            found = measured(model, engine, given.peers, launch)
            print(name, engine, found, flush=True)
            figures["models"].setdefault(name, {})[engine] = found
            kept.write_text(json.dumps(figures, indent=1))


def built(model: Model, engine: str, peers: Path) -> str:
    try:
        if engine == SIZES:
            return str(sizes_by_cpu(model, peers))
        if engine == LIBRARY:
            return f"{bytes_of(_shared_library(model)):,} bytes with weights"
        return f"{ENGINES[engine](model, peers).size:,} bytes"
    except RuntimeError as error:
        return str(error)


def _versions(peers: Path) -> dict[str, str]:
    """Of each engine's package, which has hyphens or underscores in its name."""
    found = {p.name.lower().replace("-", "_"): p.version for p in metadata.distributions(path=[str(site(peers))])}
    return {engine: found[package] for engine, package in PACKAGES.items()}


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
