"""One program, differentiated in burn in one of its ways, compared with torch in float64. Enter at `case`."""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import burn
from tests.fuzz.gradients.derivatives import KINDS, Named, in_burn, in_torch
from tests.fuzz.gradients.draft import drawn, wide
from tests.fuzz.gradients.noise import Rounding
from tests.fuzz.gradients.program import Program
from tests.fuzz.gradients.sides import scope
from tests.fuzz.gradients.steps import drafted
from tests.fuzz.runner import Outcome
from tests.fuzz.tensors.compare import difference

WAYS = ("jit", "jit", "recorded", "compile", "named", "named")
OTHER_SIZES = (1, 2, 3, 5, 6)
JUDGES = ((4, 1.0), (12, 4.0))
"""Runs with noise, and its scale, that a difference has to stand against, one after the other."""
SPREADS = 8.0
"""Times that an element may be off by as much as runs with noise differ."""
STEP = 1e-5
"""Of central differences."""

UNTRUE = "m.own("
"""Functions whose derivative may be another than their values': differences say nothing of it."""

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Plan:
    """A computation. outputs: names of values; by: of inputs; kind: of derivatives (`derivatives.py`); way: of running."""

    program: Program
    outputs: tuple[str, ...]
    by: tuple[str, ...]
    kind: str
    way: str
    device: str = "cpu"

    def __str__(self) -> str:
        inputs = []
        used = self.program.used(self.outputs)
        for name, a in self.program.inputs.items():
            elements = f" {a.tolist()}" if a.size <= 24 and name in used else ""
            inputs.append(f"# {name}: {a.dtype.name}{list(a.shape)}{elements}")
        head = f"# {self.kind} by {', '.join(self.by)}, {self.way} on {self.device}"
        return "\n".join([head, *inputs, self.program.text(self.outputs)])


def by_cuda(seed: int) -> Outcome:
    """The program of a seed on device="cuda"."""
    return case(seed, "cuda")


def by_xla(seed: int) -> Outcome:
    """The program of a seed on device="xla"."""
    return case(seed, "xla")


def case(seed: int, device: str = "cpu") -> Outcome:
    """The program of a seed. A failing one is cut down to few lines."""
    from tests.fuzz.gradients.cut import cut_down

    torch.set_num_threads(1)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = planned(seed)
        if plan is None:
            return Outcome("skipped", "no line fitted")
        plan = replace(plan, device=device)
        outcome = attempt(plan)
        return cut_down(plan, outcome) if outcome.failed else outcome


def planned(seed: int) -> Plan | None:
    """A program, and what is computed of it."""
    chance = random.Random(f"plan {seed}")
    program = drafted(seed).program
    names = [name for line in program.lines for name in line.names]
    floats = [name for name, a in program.inputs.items() if wide(a).is_floating_point()]
    if not names:
        return None
    outputs = {names[-1], *chance.sample(names, min(len(names), chance.choice((0, 0, 1, 2))))}
    by = floats if chance.random() < 0.7 else sorted(chance.sample(floats, chance.randint(1, len(floats))))
    kind = chance.choice(KINDS)
    way = chance.choice(WAYS)
    found = tuple(n for n in names if n in outputs)
    if not program.mirrored(found):
        program.dtype = "float64"
        program.inputs = {n: a.astype(np.float64) if n in floats else a for n, a in program.inputs.items()}
        kind = "second" if kind != "first" else kind
    return Plan(program, found, tuple(by), kind, way)


def attempt(plan: Plan) -> Outcome:
    """How a plan goes, for every set of inputs."""
    runs = [(plan.program.inputs, "")]
    if plan.way == "named":
        runs += [other_sizes(plan.program, number) for number in range(2)]
    try:
        run = prepared(plan)
    except burn.BurnError as error:
        kind = "refused" if plan.way == "named" or refuses(error) else "refusal"
        return Outcome(kind, f"{type(error).__name__} {error}\n{plan}")
    except Exception:
        return Outcome("exception", f"{traceback.format_exc()}\n{plan}")
    result = Outcome("ok")
    for inputs, label in runs:
        wanted = mirrored(plan, inputs)
        if wanted is None and (label or plan.program.mirrored(plan.outputs)):
            if not label:
                result = Outcome("skipped", "torch has no such derivative")
            continue  # torch refuses these sizes, or has no second derivative
        try:
            got = run(inputs)
        except burn.BurnError as error:
            if label:
                result = Outcome("refused", f"{label}: {error}\n{plan}")
                continue
            kind = "refused" if refuses(error) else "refusal"
            return Outcome(kind, f"{type(error).__name__} {error}\n{plan}")
        except Exception:
            return Outcome("exception", f"{label}: {traceback.format_exc()}\n{plan}")
        if wanted is None and UNTRUE in plan.program.text(plan.outputs):
            result = Outcome("skipped", "the derivative is not that of the values")
            continue
        text = by_differences(plan, inputs, got, run) if wanted is None else judged(plan, inputs, got, wanted)
        if text:
            return Outcome("different", f"{label}{': ' * bool(label)}{text}\n{plan}")
    return result


REFUSED = ("nonzero",)
"""Refusals of burn that are right: outputs whose sizes depend on data."""


def refuses(error: Exception) -> bool:
    return any(text in str(error) for text in REFUSED)


# ---- running ---------------------------------------------------------------------------------------------------------------
def prepared(plan: Plan) -> Any:
    """A function of inputs that gives named arrays."""
    function = plan.program.function(plan.outputs, "burn", scope("burn"))
    labels: list[str] = []

    def all_of(*xs: Any) -> list[burn.Tensor]:
        given = dict(zip(plan.program.inputs, map(burn.constant, xs), strict=True))
        named = in_burn(plan.kind, function, plan.outputs, plan.by, given)
        labels[:] = [label for label, _ in named]
        return [t for _, t in named]

    if plan.way == "recorded" and plan.device == "cpu":
        run: Any = lambda *xs: all_of(*map(burn.constant, xs))  # noqa: E731
    elif plan.way in ("jit", "recorded"):
        run = burn.jit(all_of, device=plan.device)
    else:
        examples: Any = plan.program.inputs.values()
        given = tuple(map(spec, examples) if plan.way == "named" else examples)
        run = burn.compile(all_of, given, device=plan.device)

    def named(inputs: Inputs) -> Named:
        results = run(*inputs.values())
        results = results if isinstance(results, (list, tuple)) else [results]
        arrays = [t.numpy() if isinstance(t, burn.Tensor) else np.asarray(t) for t in results]
        return list(zip(labels, arrays, strict=True))

    return named


def spec(array: np.ndarray) -> str:
    """The input's type with a name for every size but 0 and 1: equal sizes have one name."""
    return f"{array.dtype.name}[{', '.join(str(d) if d < 2 else f'n{d}' for d in array.shape)}]"


def other_sizes(program: Program, number: int) -> tuple[Inputs, str]:
    """Inputs of other sizes; what was equal stays so."""
    chance = random.Random(f"{program.text([])} {number}")
    data = np.random.default_rng([number, len(program.lines)])
    known = sorted({d for a in program.inputs.values() for d in a.shape if d > 1})
    sizes = {d: chance.choice(OTHER_SIZES) for d in known}
    inputs = {}
    for name, a in program.inputs.items():
        old: tuple[int, ...] = a.shape
        shape = tuple(sizes.get(d, d) for d in old)
        if a.dtype.kind == "i":
            inputs[name] = np.resize(a, shape) if a.size else data.integers(0, 1, shape)
        else:
            inputs[name] = (
                np.abs(drawn(data, shape, program.dtype, False))
                if (a > 0).all()
                else drawn(data, shape, program.dtype, False)
            )
    return inputs, f"with {', '.join(f'n{d} = {size}' for d, size in sizes.items())}"


def mirrored(plan: Plan, inputs: Inputs, noise: Rounding | None = None) -> Named | None:
    """The same by torch; None where it refuses."""
    if not plan.program.mirrored(plan.outputs):
        return None
    function = plan.program.function(plan.outputs, "torch", scope("torch"))
    xs = {n: wide(a) for n, a in inputs.items()}
    try:
        if noise is None:
            return in_torch(plan.kind, function, plan.outputs, plan.by, xs)
        with noise:
            return in_torch(plan.kind, function, plan.outputs, plan.by, xs)
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, AssertionError):
        return None


# ---- judging ---------------------------------------------------------------------------------------------------------------
def judged(plan: Plan, inputs: Inputs, got: Named, wanted: Named) -> str:
    """The first difference that noise does not explain; empty where there is none."""
    if [n for n, _ in got] != [n for n, _ in wanted]:
        return f"{[n for n, _ in got]}, torch has {[n for n, _ in wanted]}"
    if not _first(got, wanted, []):
        return ""
    text = ""
    for count, scale in JUDGES:
        shaken = []
        for trial in range(count):
            noise = Rounding(trial, plan.program.dtype, scale)
            values = mirrored(plan, inputs, noise)
            if values is None or noise.overflowed:
                return ""  # with noise it does not even run, or its type holds no such numbers
            shaken.append(values)
        text = _first(got, wanted, shaken)
        if not text:
            return ""
    return text


def _first(got: Named, wanted: Named, shaken: Sequence[Named]) -> str:
    for number, ((name, ours), (_, theirs)) in enumerate(zip(got, wanted, strict=True)):
        with np.errstate(all="ignore"):
            if "value" not in name:  # where torch has no derivative, tests/points says what burn has
                ours = (
                    np.where(np.isfinite(theirs), ours, theirs).astype(ours.dtype)
                    if ours.shape == theirs.shape
                    else ours
                )
            theirs = theirs.astype(ours.dtype)
            others = [values[number][1] for values in shaken]
            text = difference(ours, theirs, others, SPREADS)
        if text:
            return f"{name}: {text}".replace("numpy", "torch")
    return ""


def by_differences(plan: Plan, inputs: Inputs, got: Named, run: Any) -> str:
    """The derivatives in a direction against differences of the values, and the second ones against differences of the first."""
    data = np.random.default_rng(5)
    direction = {n: data.standard_normal(inputs[n].shape) for n in plan.by}

    def moved(by: float) -> dict[str, np.ndarray]:
        return dict(run({n: a + by * direction[n] if n in direction else a for n, a in inputs.items()}))

    def weighted(values: dict[str, np.ndarray], start: str, phase: float) -> float:
        found = [a for n, a in values.items() if n.startswith(start)]
        weights = [np.sin(0.7 * np.arange(a.size) + phase).reshape(a.shape) for a in found]
        return sum(float(((a + 0.25 * a * a) * w).sum()) for a, w in zip(found, weights, strict=True))

    near, far = ([moved(s) for s in (h, -h)] for h in (STEP, 8 * STEP))
    for of, derivative, phase in (("value", "derivative", 1.0), ("derivative", "second derivative", 2.0)):
        parts = [
            float((a * direction[n.rpartition(" by ")[2]]).sum()) for n, a in got if n.startswith(f"{derivative} by")
        ]
        if not parts:
            continue
        one, other = (
            (weighted(a, of, phase) - weighted(b, of, phase)) / (2 * h) for (a, b), h in ((near, STEP), (far, 8 * STEP))
        )
        size = 1.0 + abs(one) + sum(map(abs, parts))
        if abs(one - other) <= 1e-6 * size < abs(sum(parts) - one) / 20:  # else there is a kink nearby
            return f"{derivative} in a direction: {sum(parts)}, by differences {one}"
    return ""
