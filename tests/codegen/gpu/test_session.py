"""One compilation describes its kernels once: passes, printer and reports take their preferences from `Backend.session`."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import burn
from burn.codegen.cpu.backend import CPU
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.heuristics.loops import ELEMENTS, flat
from burn.compiler import backend_for, environment
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.kernels.builders import kernels
from burn.kernels.text import groups
from burn.passes import pipeline
from burn.tracing.trace import trace
from tests.kernels.interpreting import agree, interpreted

HINTS = (None, 1, 16, 64, 128, 256, 512, 1024, 16384, 65536)
SIZES = (1, 2, 5)


def fused(gpu: GPU, program: Program) -> GPU:
    session = gpu.session(program)
    pipeline.run(pipeline.parse(session.pipeline.text), program, environment(session))
    return session


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_kernels_that_passes_saw_are_those_printed(dtype: str, architecture: str) -> None:
    """How many parts a matmul has depends on the size hints and on the GPU."""
    counts = set()
    for rows in (64, 256, 1024):
        for hint in HINTS:
            program = trace(lambda x, w: x @ w, {"x": f"{dtype}[{rows}, n]", "w": f"{dtype}[n, n]"})
            program.given_up, program.size_hints = (0,), {} if hint is None else {"n": hint}
            session = fused(GPU(architecture=architecture), program)
            with context():
                printer = session.printer.kernels(program)
                for group in groups(program.block):
                    described = kernels(group, session.preferences)
                    assert len(printer.group(group).calls) == len(described)
                    counts.add(len(described))
    assert len(counts) > 1  # hints matter


def test_size_hints_reach_every_description() -> None:
    program = trace(lambda x: x.sum(0), {"x": "float32[n, 8]"})
    program.size_hints = {"n": 1 << 20}
    assert GPU().session(program).preferences is not GPU().preferences
    assert GPU().session(program).hints == {**GPU().session(program.copy()).hints} != {}
    cpu = backend_for()
    assert isinstance(cpu, CPU) and cpu.session(program) is cpu


def drawn(rng: random.Random) -> Program:
    """A program that gives up some inputs: a matmul, reductions or a chain, whose results have the shape of an input."""
    dtype = rng.choice(["float32", "float16"])
    rows = rng.choice([3, 64])
    specs = {"x": f"{dtype}[{rows}, n]", "w": f"{dtype}[n, n]", "b": f"{dtype}[{rows}, n]"}

    def function(x: burn.Tensor, w: burn.Tensor, b: burn.Tensor) -> list[burn.Tensor]:
        values = [x, b]
        for _ in range(rng.randint(1, 4)):
            of = rng.choice(values)
            match rng.randrange(7):
                case 0 | 1:
                    made = of @ w
                case 2:
                    made = of + rng.choice(values)
                case 3:
                    made = of - of.mean(rng.randrange(2), keepdims=True)
                case 4:
                    made = burn.softmax(of, axis=rng.randrange(2))
                case 5:
                    made = burn.flip(of, axis=rng.randrange(2))
                case _:
                    made = burn.gelu(of)
            values.append(made)
        return [value for value in values[-2:] if value is not x and value is not b]

    program = trace(function, specs)
    program.given_up = tuple(i for i in range(3) if rng.random() < 0.7)
    hint = rng.choice(HINTS)
    program.size_hints = {} if hint is None else {"n": hint}
    return program


def check_donation(seed: int) -> int:
    """The outputs of a drawn program are the same with and without the memory of its inputs. How many took it over."""
    rng = random.Random(seed)
    program = drawn(rng)
    session = fused(GPU(architecture=rng.choice(["sm_80", "sm_90"])), program)
    n = rng.choice(SIZES)
    numbers = np.random.default_rng(seed)
    arrays = []
    for type_ in program.input_types:
        shape = [d if isinstance(d, int) else n for d in type_.shape]
        arrays.append(numbers.standard_normal(shape).astype(type_.dtype))
    want = interpreted(program, arrays, preferences=session.preferences)
    agree(interpreted(program, arrays, preferences=session.preferences, in_place=True), want)
    return len(program.donated)


def test_a_matmul_over_the_input_it_reads() -> None:
    """With unknown sizes its depth is split, and only the second kernel writes the output; with these hints it is one kernel."""
    program = trace(lambda x, w: x @ w, {"x": "float32[64, n]", "w": "float32[n, n]"})
    program.given_up, program.size_hints = (0,), {"n": 64}
    session = fused(GPU(), program)
    arrays = [np.random.default_rng(0).standard_normal(shape).astype("f4") for shape in ((64, 5), (5, 5))]
    agree(interpreted(program, arrays, preferences=session.preferences, in_place=True), [arrays[0] @ arrays[1]])


def test_outputs_in_the_memory_of_inputs() -> None:
    count = int(os.environ.get("BURN_SWEEP", "6"))
    first = int(os.environ.get("BURN_SWEEP_SEED", "0"))
    assert sum(check_donation(seed) for seed in range(first, first + count)) > count // 8


@pytest.mark.parametrize(
    "kind, architecture, processors", [("cuda", "sm_80", 108), ("cuda", "sm_90", 132), ("hip", "gfx942", 304)]
)
def test_the_number_of_processors_is_the_architectures(kind: str, architecture: str, processors: int) -> None:
    """Elements that keep one processor of each busy are cut into smaller blocks on GPUs with more of them."""
    gpu = GPU(kind=kind, architecture=architecture)
    assert gpu.abilities.processors == gpu.preferences.split_programs == processors
    few = [flat(2 * n * ELEMENTS, 4, processors).rows < ELEMENTS for n in (processors - 1, processors)]
    assert few == [True, False]
