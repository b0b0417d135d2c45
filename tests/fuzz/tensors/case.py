"""One program: run in one of burn's ways, compared with numpy, and cut down where they differ. Enter at `case`."""

from __future__ import annotations

import os
import random
import re
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import burn
from tests.fuzz.runner import Outcome
from tests.fuzz.tensors.burn_side import Burn
from tests.fuzz.tensors.compare import difference
from tests.fuzz.tensors.draft import TWINS, drawn
from tests.fuzz.tensors.numpy_side import Numpy
from tests.fuzz.tensors.program import Program
from tests.fuzz.tensors.steps import drafted

WAYS = ("lazy", "lazy", "eager", "jit", "compile", "named", "named")
OTHER_SIZES = (0, 1, 2, 3, 5, 9, 19)
DEVICES = ("cuda", "xla", "wgpu")
"""Targets that are devices; others are CPUs."""
JUDGES = 16
"""Runs with noise that a difference has to stand against."""

Outputs = list[np.ndarray]
Runs = list[tuple[list[np.ndarray], str]]
"""Inputs, and what to call them; the first are those that the program was made with."""


def by_cuda(seed: int) -> Outcome:
    """The program of a seed on device="cuda"."""
    return case(seed, "cuda")


def by_xla(seed: int) -> Outcome:
    """The program of a seed on device="xla"."""
    return case(seed, "xla")


def by_wgpu(seed: int) -> Outcome:
    """The program of a seed on device="wgpu"."""
    return case(seed, "wgpu")


def case(seed: int, device: str = "") -> Outcome:
    """The program of a seed. BURN_FUZZ_TARGET names a CPU to compile for, where the way allows it."""
    chance = random.Random(f"way {seed}")
    target = device or os.environ.get("BURN_FUZZ_TARGET") or None
    way = chance.choice(WAYS[4:] if target else WAYS)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draft = drafted(seed, way == "named")
        program = draft.program
        names = [name for line in program.lines for name in line.names]
        if not names:
            return Outcome("skipped", "no step fitted")
        outputs = chance.sample(names, min(len(names), chance.choice([1, 2] if way == "named" else [1, 2, 4, 100])))
        runs: Runs = [(program.inputs, "")]
        if way == "named":
            runs += [other_sizes(program.inputs, seed, i) for i in range(3)]
        outcome = attempt(program, outputs, way, runs, target)
        return outcome if not outcome.failed else cut_down(program, names, way, runs, target, outcome)


def attempt(program: Program, outputs: Sequence[str], way: str, runs: Runs, target: str | None) -> Outcome:
    """How one way of computing some values goes, for every set of inputs."""
    try:
        run = prepared(program, outputs, way, target)
    except burn.BurnError as error:
        return Outcome(refusal(way, error), f"{way}: {type(error).__name__} {error}\n{program.text(outputs)}")
    except Exception:
        return Outcome("exception", f"{way}: {traceback.format_exc()}\n{program.text(outputs)}")
    refused = Outcome("ok")
    for number, (inputs, label) in enumerate(runs):
        shown = f"{way}{label}: "
        try:
            wanted = program.function(outputs, Numpy())(*inputs)
        except Exception:
            continue  # the program is not for these sizes
        try:
            got = run(inputs)
        except burn.BurnError as error:
            if way == "named" and number:
                refused = Outcome("refused", f"{shown}{error}\n{program.text(outputs)}")
                continue
            text = f"{shown}{type(error).__name__} {error}\n{described(program, outputs, inputs)}"
            return Outcome("refusal", text)  # the sizes are those that the program was made with
        except Exception:
            return Outcome("exception", f"{shown}{traceback.format_exc()}\n{described(program, outputs, inputs)}")
        for name, ours, theirs in zip(outputs, got, wanted, strict=True):
            text = judged(program, name, np.asarray(ours), np.asarray(theirs), inputs)
            if text:
                return Outcome("different", f"{shown}{name}: {text}\n{described(program, [name], inputs)}")
    return refused


def refusal(way: str, error: burn.BurnError) -> str:
    """Named sizes leave open what numbers decide: burn may refuse where the way, or the data, name a size."""
    by_data = way in ("jit", "compile") and re.search(r"\[[^\]]*\b(nonzero|unique)\w*\b[^\]]*\]", str(error))
    return "refused" if way == "named" or by_data else "refusal"


def judged(program: Program, name: str, ours: np.ndarray, theirs: np.ndarray, inputs: Outputs) -> str:
    """Differences beyond rounding; empty if there are none."""
    text = ""
    for count, scale in ((TWINS, 1.0), (JUDGES, 4.0)):
        text = difference(ours, theirs, list(noisy(program, name, inputs, count, scale)))
        if not text:
            return ""
    return text


def noisy(program: Program, name: str, inputs: Outputs, count: int, scale: float) -> Any:
    for number in range(count):
        try:
            yield np.asarray(program.function([name], Numpy(np.random.default_rng(number), scale))(*inputs)[0])
        except Exception:
            yield np.empty((0, 0, 0, 0, 0, 0, 0))  # with noise it does not even run: nothing is decided


def prepared(program: Program, outputs: Sequence[str], way: str, target: str | None) -> Callable[[Outputs], Outputs]:
    if way in ("lazy", "eager"):
        lazy = program.function(outputs, Burn(eager=3 if way == "eager" else 0))
        return lambda inputs: [t.numpy() for t in lazy(*map(burn.constant, inputs))]
    function = program.function(outputs, Burn())
    if way == "jit":
        compiled = burn.jit(function, **_where(target))
    else:
        examples = [spec(a) for a in program.inputs] if way == "named" else list(program.inputs)
        compiled = burn.compile(function, tuple(examples), **_where(target))

    def run(inputs: Outputs) -> Outputs:
        results = compiled(*inputs)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    return run


def _where(target: str | None) -> dict[str, Any]:
    """The options that name a device, or a CPU."""
    return {"device" if target in DEVICES else "target": target} if target else {}


def spec(array: np.ndarray) -> str:
    """The input's type with a name for every size but 1: equal sizes have one name."""
    return f"{array.dtype.name}[{', '.join('1' if d == 1 else f'n{d}' for d in array.shape)}]"


def other_sizes(inputs: Outputs, seed: int, number: int) -> tuple[Outputs, str]:
    """Inputs of other sizes; what was equal stays so."""
    chance = random.Random(f"sizes {seed} {number}")
    data = np.random.default_rng([seed, number])
    sizes = {d: chance.choice(OTHER_SIZES) for d in sorted({d for a in inputs for d in a.shape if d != 1})}
    arrays = [drawn(data, tuple(sizes.get(d, 1) for d in a.shape), a.dtype.name) for a in inputs]
    return arrays, f" with {', '.join(f'n{d} = {size}' for d, size in sizes.items())}"


def cut_down(
    program: Program, names: Sequence[str], way: str, runs: Runs, target: str | None, found: Outcome
) -> Outcome:
    """The first value that fails in the same manner on its own."""
    for name in names:
        outcome = attempt(program, [name], way, runs, target)
        if outcome.kind == found.kind:
            return outcome
    return found


def described(program: Program, outputs: Sequence[str], inputs: Outputs) -> str:
    text = program.text(outputs)
    used = [i for i in range(len(inputs)) if f"x{i}" in text.partition("\n")[2]]
    rows = [
        f"x{i}: {inputs[i].dtype.name}{list(inputs[i].shape)} {inputs[i].tolist() if inputs[i].size < 30 else ''}"
        for i in used
    ]
    return "\n".join([text, *rows])
