"""Costs of CPUs that are not here, by counting: LLVM's scheduling models give the cycles of the instructions in hot loops.

burn compiles the programs for the target, a C compiler turns LLVM's text into assembly, and llvm-mca (of LLVM's tools, in PATH)
simulates the innermost loop with the most instructions. Memory, caches and threads are not simulated, so their costs keep the
defaults. Models of CPUs in LLVM are approximations by their vendors or from guides; a measured cost is better.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from burn import toolchain
from burn.bench.machine import programs
from burn.bench.machine.direct import CHAINS, NEAR_PEAK
from burn.bench.machine.search import GAIN
from burn.codegen.cpu.costs import FIELDS, Costs
from burn.codegen.cpu.measured import Measurement
from burn.codegen.cpu.target import Target
from burn.compiler import compile_program
from burn.errors import CompileError, Problem
from burn.options import OFF, SPEED, Options
from burn.toolchain import platforms

MODELS: Mapping[str, tuple[str, ...]] = {
    "neon": ("neoverse-n1", "cortex-a72", "apple-m1"),
    "apple-m1": ("apple-m1",),
}
"""LLVM's names of the CPUs that a target's costs are means of."""

ITERATIONS = 100
"""Of a simulated loop."""

NOT_SIMULATED = "llvm-mca does not simulate it"

_LABEL = re.compile(r"^(\.?[\w.$]+):")
_BRANCHES = ("b", "cb", "tb")
"""Starts of the names of branches to labels."""
_CYCLES = re.compile(r"^Total Cycles:\s+(\d+)", re.MULTILINE)
_MULTIPLY_ADD = re.compile(r"^\s+f(?:mla|madd)\b", re.MULTILINE)

Simulate = Callable[[str, str], float]
"""The cycles of an iteration of a loop, given its assembly and a CPU's name."""


def measure(target: Target, simulate: Simulate | None = None) -> Measurement:
    """The costs that depend on instructions alone. simulate: in place of llvm-mca, for tests. Raises CompileError for a target
    without models, and if a tool is missing."""
    models = MODELS.get(target.name, ())
    if not models:
        hint = f"models are known for {', '.join(MODELS)}"
        raise CompileError(
            f"costs of {target.name} cannot be counted", [Problem("LLVM's models do not cover it", hint=hint)]
        )
    start, run = time.perf_counter(), simulate or _mca

    def cycles(loop: str) -> list[float]:
        return [run(loop, model) for model in models]

    found: dict[str, int] = {"chains": _chains(cycles), "expensive": _expensive(target, cycles)}
    shapes = [(vectors, rows) for vectors, rows in ((4, 8), (3, 8), (2, 8), (2, 12))]
    tiles = [
        {"panel_vectors": vectors, "tile_rows": rows, "unroll": unroll}
        for unroll in (4, 8, 2)
        for vectors, rows in shapes
    ]
    found |= _least(target, target.costs, tiles, cycles)
    kept = dict.fromkeys((name for name in FIELDS if name not in found), NOT_SIMULATED)
    seconds = time.perf_counter() - start
    return Measurement(f"LLVM's models of {', '.join(models)}", target.name, 1, seconds, found, kept)


def _chains(cycles: Callable[[str], list[float]]) -> int:
    """The fewest dependent chains of multiply-adds that are near the peak, for the CPU that needs the most."""
    loops = ["\n".join(f"  fmla v{i}.4s, v30.4s, v31.4s" for i in range(count)) for count in CHAINS]
    rates = [[count / each for each in cycles(loop)] for count, loop in zip(CHAINS, loops, strict=True)]
    enough = []
    for model in range(len(rates[0])):
        peak = max(rate[model] for rate in rates)
        enough.append(next(n for n, rate in zip(CHAINS, rates, strict=True) if rate[model] >= NEAR_PEAK * peak))
    return max(enough)


def _expensive(target: Target, cycles: Callable[[str], list[float]]) -> int:
    """The cycles of an exponential over those of a simple operation, in a vector of elements."""
    makes = [programs.elementwise(4096, 4), programs.elementwise(4096, 12)]
    makes += [programs.functions(4096, 1), programs.functions(4096, 3)]
    few, many, once, often = (cycles(_hot_loop(_assembly(make, target, target.costs))) for make in makes)
    ratios = []
    for model in range(len(few)):
        simple = (many[model] - few[model]) / (2 * 8)
        ratios.append(((often[model] - once[model]) / 2 - 2 * simple) / max(simple, 0.01))
    least, most = (FIELDS["expensive"].metadata[key] for key in ("least", "most"))
    return max(least, min(most, round(_mean(ratios))))


def _least(
    target: Target, costs: Costs, candidates: Sequence[dict[str, int]], cycles: Callable[[str], list[float]]
) -> dict[str, int]:
    """The values with the fewest cycles for each multiply-add of a matmul. The first remain if no others gain enough."""
    means = []
    for each in candidates:
        loop = _hot_loop(_assembly(programs.matmul(96, 256, 96), target, replace(costs, **each)))
        count = len(_MULTIPLY_ADD.findall(loop))
        means.append(_mean([found / max(count, 1) for found in cycles(loop)]))
    best = min(range(len(means)), key=means.__getitem__)
    return candidates[best if means[best] < (1 - GAIN) * means[0] else 0]


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(max(value, 1e-9)) for value in values) / len(values))


def _assembly(make: programs.Make, target: Target, costs: Costs) -> str:
    """The program's assembly. Raises CompileError without a C compiler for the target."""
    options = Options(
        target=replace(target, costs=costs), as_text=True, autotune=OFF, cache=False, optimize=SPEED, nans=""
    )
    text = bytes(compile_program(make(), options).code)
    chain = toolchain.find(platforms.find(f"{target.architecture}-linux"))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "program.ll"
        source.write_bytes(text)
        chain.assembly(source, Path(folder) / "program.s")
        return (Path(folder) / "program.s").read_text()


def _hot_loop(assembly: str) -> str:
    """The instructions of the innermost loop with the most multiply-adds, or else the most instructions. A loop ends with a
    branch to a label before it."""
    lines: list[str] = []
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for line in assembly.splitlines():
        if match := _LABEL.match(line):
            labels[match[1]] = len(lines)
        elif line.startswith("\t") and not line.lstrip().startswith((".", "//")):
            lines.append(line.split("//")[0].rstrip().replace("\t", "  "))
            if lines[-1].split()[0].startswith(_BRANCHES) and (start := labels.get(lines[-1].split()[-1])) is not None:
                loops.append((start, len(lines)))
    inner = [(a, b) for a, b in loops if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in loops)]
    texts = ["\n".join(lines[start:end]) for start, end in inner]
    if not texts:
        raise CompileError("internal: a program has no loop", ["its assembly has no branch to a label before it"])
    return max(texts, key=lambda text: (len(_MULTIPLY_ADD.findall(text)), len(text)))


def _mca(loop: str, cpu: str) -> float:
    """By llvm-mca."""
    tool = shutil.which("llvm-mca")
    if tool is None:
        hint = "install LLVM's tools"
        raise CompileError("cycles cannot be counted", [Problem("llvm-mca is not in PATH", hint=hint)])
    command = [tool, "-mtriple=aarch64", f"-mcpu={cpu}", f"-iterations={ITERATIONS}"]
    done = subprocess.run(command, input=loop + "\n", capture_output=True, text=True)
    found = _CYCLES.search(done.stdout)
    if done.returncode or found is None:
        raise CompileError("llvm-mca failed", done.stderr.splitlines()[:10] or ["it printed no cycles"])
    return int(found[1]) / ITERATIONS
