"""Autotuning: shapes of blocks that are faster on a card than those that the heuristics name. `tuned` is the entry point.

Every kernel that has a choice (products, attention) is compiled in a few shapes, those that the model of time does not rule out
(`candidates.py`). The program then runs with every kernel in its first shape, then in its second, and so on, so that each is
timed among the kernels that it works beside, by the card's own clock. What was fastest is noted on disk (`book.py`) and is not
timed again. Sizes with names count as typical ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from burn.codegen.backend import Built
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.book import Book
from burn.codegen.triton.candidates import SHARED_BY_CARD, SHARED_ELSEWHERE
from burn.codegen.triton.choices import Choices, Shape
from burn.codegen.triton.images import Source, compile_each
from burn.dialect.dims import TYPICAL, estimate
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import DTYPES, TensorType, numpy_dtype
from burn.errors import CompileError, InputError, Problem, RunError
from burn.kernels.likeness import likeness
from burn.kernels.text import groups
from burn.runtime.artefact import Artefact, KernelImage
from burn.runtime.device import Device
from burn.runtime.executable import Executable

TRIED = {"fast": 4, "full": 16}
"""Shapes of a kernel that are timed, by mode."""

WORTH = 0.97
"""Of the usual shape's time: what another takes at most. Clocks are not better than that."""

RUNS = 5
"""Of which the fastest counts."""

Shapes = Mapping[str, Sequence[Shape]]
Measure = Callable[[Built], Sequence[float]]
"""Seconds of each launch of a program, by its number."""


def tuned(program: Program, backend: GPU, mode: str, card: str, measure: Measure) -> GPU:
    """The back end with the fastest shapes for a fused program's kernels. card: its name. Raises CompileError."""
    seen: dict[str, list[Shape]] = {}
    _sources(program, replace(backend, choices=Choices(seen=seen)))
    shapes = {key: found for key, found in seen.items() if len(found) > 1}
    book, tried = Book.of(card), TRIED[mode]
    picked = {key: shape for key, found in shapes.items() if (shape := book.get(key, found, tried)) is not None}
    unknown = {key: found[:tried] for key, found in shapes.items() if key not in picked}
    images: dict[Source, KernelImage] = {}
    if unknown:
        images, unfit = _compiled(program, backend, picked, unknown)
        for key, times in _timed(program, backend, picked, unknown, images, unfit, measure).items():
            picked[key] = unknown[key][_fastest(times)]
            book.put(key, picked[key], times, len(unknown[key]))
    return replace(backend, choices=Choices(picked, images=images))


def _fastest(times: Mapping[int, float]) -> int:
    """The usual one, unless another is clearly faster."""
    best = min(times, key=lambda number: times[number])
    return best if times[best] <= WORTH * times[0] else 0


def _trial(picked: Mapping[str, Shape], shapes: Shapes, number: int) -> dict[str, Shape]:
    """Every kernel in its shape of that number; in the usual one, if it has no such."""
    return {**picked, **{key: found[number if number < len(found) else 0] for key, found in shapes.items()}}


def _rounds(shapes: Shapes) -> range:
    return range(max(map(len, shapes.values())))


def _sources(program: Program, backend: GPU) -> dict[Source, set[str]]:
    """What is to be compiled of a program, and the choices behind it."""
    with context():
        kernels = backend.kernels(program)
        for group in {(likeness(g), kernels.variant(g)): g for g in groups(program.block)}.values():
            kernels.group(group)
    return {source: kernels.made_by.get(source, set()) for source in kernels.sources}


def _compiled(
    program: Program, backend: GPU, picked: Mapping[str, Shape], shapes: Shapes
) -> tuple[dict[Source, KernelImage], set[tuple[str, int]]]:
    """All kernels in all shapes, side by side; and which shapes, by number, a kernel cannot have."""
    found: dict[Source, set[tuple[str, int]]] = {}
    for number in _rounds(shapes):
        trial = Choices(_trial(picked, shapes, number))
        for source, keys in _sources(program, replace(backend, choices=trial)).items():
            found.setdefault(source, set()).update((key, number) for key in keys)
    _tell(f"compiling {len(found)} kernels")
    most = SHARED_BY_CARD.get(backend.architecture, SHARED_ELSEWHERE)
    images, unfit = {}, set()
    for source, made in zip(found, compile_each(list(found), backend.machine), strict=True):
        if isinstance(made, KernelImage) and made.shared <= most:
            images[source] = made
        else:
            unfit |= {(key, number) for key, number in found[source] if number}
    return images, unfit


def _timed(
    program: Program,
    backend: GPU,
    picked: Mapping[str, Shape],
    shapes: Shapes,
    images: Mapping[Source, KernelImage],
    unfit: set[tuple[str, int]],
    measure: Measure,
) -> dict[str, dict[int, float]]:
    """Seconds of each kernel, by the number of its shape. What does not run at all has none."""
    times: dict[str, dict[int, float]] = {}
    for number in _rounds(shapes):
        _tell(f"timing {number + 1} of {len(_rounds(shapes))}")
        fit = {key: found for key, found in shapes.items() if (key, number) not in unfit}
        trial = {**_trial(picked, shapes, 0), **_trial({}, fit, number)}
        built = replace(backend, choices=Choices(trial, images=images)).build(program)
        for launch, seconds in enumerate(measure(built)):
            key = built.chosen.get(launch, "")
            if key in fit and number < len(fit[key]) and seconds:
                taken = times.setdefault(key, {})
                taken[number] = taken.get(number, 0.0) + seconds
    _tell("")
    return {key: taken for key, taken in times.items() if 0 in taken}


def _tell(text: str) -> None:
    """A line on a terminal that is written over by the next."""
    if sys.stderr.isatty():
        print(f"\r\033[Kautotuning: {text}" if text else "\r\033[K", end="", file=sys.stderr, flush=True)


# ---- measuring -------------------------------------------------------------------------------------------------------------


def seconds(program: Program, artefact: Artefact, device: Device) -> list[float]:
    """Of each launch, the fastest of some runs on inputs of typical sizes: random numbers, and integers that are 0, which name
    a place wherever they are indices. Raises CompileError for programs that do not run on such."""
    count = len(program.inputs) - program.random_state
    if program.input_containers:
        hint = 'leave autotuning off: autotune="off"'
        raise CompileError(
            "autotuning makes up inputs of numbers", [Problem("the program takes lists or strings", hint=hint)]
        )
    given = [_made_up(type_, number) for number, type_ in enumerate(program.input_types[:count])]
    executable = Executable(artefact, device=device)
    best = [float("inf")] * len(artefact.kernels)
    try:
        for _ in range(RUNS + 1):
            rows = {id(row.kernel): row.seconds for row in executable.profile(*given).rows}
            best = [min(a, rows.get(id(kernel), 0.0)) for a, kernel in zip(best, artefact.kernels, strict=True)]
    except (InputError, RunError) as error:
        hint = 'leave autotuning off: autotune="off"'
        raise CompileError("autotuning runs a program on made-up inputs", [Problem(str(error), hint=hint)]) from error
    return best


def _made_up(type_: TensorType, seed: int) -> np.ndarray:
    shape = tuple(estimate(d, TYPICAL) for d in type_.shape)
    if DTYPES[type_.dtype].kind in ("float", "small"):
        return np.random.default_rng(seed).standard_normal(shape).astype(numpy_dtype(type_.dtype))
    return np.zeros(shape, numpy_dtype(type_.dtype))
