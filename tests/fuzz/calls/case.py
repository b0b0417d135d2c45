"""One program: compiled with drawn options, called in a drawn form, compared with numpy. Enter at `case`."""

from __future__ import annotations

import os
import pickle
import random
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import burn
from burn.errors import InputError
from tests.codegen.cpus import RUNNABLE
from tests.fuzz.calls.operands import presented
from tests.fuzz.compilation import chosen
from tests.fuzz.runner import Outcome
from tests.fuzz.tensors.burn_side import Burn
from tests.fuzz.tensors.case import Outputs, described, judged, other_sizes, refusal, spec
from tests.fuzz.tensors.numpy_side import Numpy
from tests.fuzz.tensors.program import Program
from tests.fuzz.tensors.steps import drafted

AUTOTUNE = ("", "any", "any", "any", "fast", "full")
TARGETS = ("", "", "", "avx512", "avx2", "generic")
OPTIMIZE = ("speed", "speed", "compile-time", "none")
THREADS = (1, 2, 5)
FORMS = ("called", "called", "by name", "saved", "pickled", "threads", "jit")
CALLERS = 4
"""Python threads of the form "threads"."""

Run = Callable[[Sequence[object]], list[Any]]


@dataclass(frozen=True)
class Plan:
    """form: of calls. named: sizes have names, and further calls have other sizes. donated: the numbers of inputs that each
    call donates."""

    form: str
    named: bool
    autotune: str
    costs: bool
    threads: int
    optimize: str
    target: str
    exact: bool
    donated: tuple[int, ...] = ()

    def __str__(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.__dataclass_fields__)


def case(seed: int) -> Outcome:
    chance = random.Random(f"call {seed}")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = chance.random() < 0.4
        program = drafted(seed, named).program
        names = [name for line in program.lines for name in line.names]
        if not names:
            return Outcome("skipped", "no step fitted")
        share(program, chance)
        outputs = chance.sample(names, min(len(names), chance.choice((1, 2, 4))))
        if chance.random() < 0.2:
            outputs.append(chance.choice(outputs))  # one value twice
        if chance.random() < 0.2 and program.inputs:
            outputs.append(f"x{chance.randrange(len(program.inputs))}")  # an input as it is
        plan = planned(program, named, chance)
        variables = {
            "BURN_OPTIMIZE": plan.optimize,
            "BURN_FUZZ_COSTS": "1" if plan.costs else "",
            "BURN_FUZZ_TARGET": plan.target,
        }
        burn.set_num_threads(plan.threads)
        with mock.patch.dict(os.environ, variables), chosen(seed, plan.autotune):
            return attempt(program, outputs, plan, seed)


def share(program: Program, chance: random.Random) -> None:
    """Makes some inputs equal to earlier ones of their type and shape: callers then pass one array twice."""
    for number, array in enumerate(program.inputs):
        alike = [a for a in program.inputs[:number] if a.shape == array.shape and a.dtype == array.dtype]
        if alike and chance.random() < 0.5:
            program.inputs[number] = chance.choice(alike)


def planned(program: Program, named: bool, chance: random.Random) -> Plan:
    form = chance.choice(FORMS)
    donated = (
        tuple(i for i in range(len(program.inputs)) if chance.random() < 0.25) if form in ("called", "jit") else ()
    )
    return Plan(
        form,
        named,
        chance.choice(AUTOTUNE),
        chance.random() < 0.3,
        chance.choice(THREADS),
        chance.choice(OPTIMIZE),
        target if (target := chance.choice(TARGETS)) in RUNNABLE else "",
        form != "jit" and chance.random() < 0.2,
        donated,
    )


def attempt(program: Program, outputs: Sequence[str], plan: Plan, seed: int) -> Outcome:
    def told(kind: str, text: str, inputs: Outputs = program.inputs) -> Outcome:
        return Outcome(kind, f"{text}\n# {plan}\n{described(program, outputs, inputs)}")

    chance = random.Random(f"operands {seed}")
    try:
        run = prepared(program, outputs, plan)
    except burn.BurnError as error:
        return told(refusal("named" if plan.named else "compile", error), f"{type(error).__name__}: {error}")
    except Exception:
        return told("exception", traceback.format_exc())
    runs = [(program.inputs, "")]
    runs += [other_sizes(program.inputs, seed, i) for i in range(3)] if plan.named else [(program.inputs, " again")]
    result = Outcome("ok")
    for number, (inputs, label) in enumerate(runs):
        try:
            wanted = [np.asarray(w).copy() for w in program.function(outputs, Numpy())(*inputs)]
        except Exception:
            if number == 0:
                raise
            continue  # the program is not for these sizes
        operands, forms = given(inputs, plan, chance)
        shown = f"{label} with {', '.join(forms)}"
        try:
            got = run(operands)
        except burn.BurnError as error:
            if isinstance(error, InputError) and is_refused(error, operands, plan):
                result = told("refused", f"{shown}: {error}", inputs)
                continue
            kind = "refused" if plan.named and number else "refusal"
            result = told(kind, f"{shown}: {type(error).__name__}: {error}", inputs)
            if result.failed:
                return result
            continue
        except Exception:
            return told("exception", f"{shown}: {traceback.format_exc()}", inputs)
        for name, ours, theirs in zip(outputs, got, wanted, strict=True):
            if text := judged(program, name, np.asarray(ours), theirs, inputs):
                return told("different", f"{shown}: {name}: {text}", inputs)
        if text := written(inputs, operands, got, plan):
            return told("aliases", f"{shown}: {text}", inputs)
    return result


def given(inputs: Outputs, plan: Plan, chance: random.Random) -> tuple[list[object], list[str]]:
    """The operands in drawn forms; inputs that are one array stay one object. Donated ones are arrays of their own."""
    made: dict[int, tuple[str, object]] = {}
    found: list[tuple[str, object]] = []
    for number, array in enumerate(inputs):
        if number in plan.donated:
            found.append(("donated", array.copy()))
            continue
        found.append(made.setdefault(id(array), presented(array, chance)))
    if plan.donated and chance.random() < 0.1:  # which must be refused
        first = found[plan.donated[0]]
        alike = [i for i, a in enumerate(inputs) if a is inputs[plan.donated[0]] and i != plan.donated[0]]
        for i in alike:
            found[i] = first
    return [operand for _, operand in found], [name for name, _ in found]


def is_refused(error: InputError, operands: Sequence[object], plan: Plan) -> bool:
    """True if an error is right: a donated array is passed twice."""
    donated = [operands[i] for i in plan.donated]
    twice = any(sum(each is operand for operand in operands) > 1 for each in donated)
    return twice and "donated" in str(error)


def written(inputs: Outputs, operands: Sequence[object], got: Sequence[Any], plan: Plan) -> str:
    """Operands that a call changed, and results whose memory is that of an operand or of another result; else empty."""
    for number, (array, operand) in enumerate(zip(inputs, operands, strict=True)):
        if number not in plan.donated and not same(np.asarray(operand), array):
            return f"x{number} was changed"
    arrays = [each for each in got if isinstance(each, np.ndarray)]
    kept = [each for i, each in enumerate(operands) if isinstance(each, np.ndarray) and i not in plan.donated]
    for number, array in enumerate(arrays):
        if array.size and not array.flags.writeable:
            return f"result {number} is read-only"
        if any(np.shares_memory(array, other) for other in (*kept, *arrays[:number])):
            return f"result {number} shares memory"
    for array in arrays:
        array.fill(1)  # a constant of the program must stay as it is
    return ""


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


# ---- forms of calls --------------------------------------------------------------------------------------------------------
def prepared(program: Program, outputs: Sequence[str], plan: Plan) -> Run:
    function = program.function(outputs, Burn())
    examples = tuple(spec(a) if plan.named else a for a in program.inputs)
    if plan.form == "jit":
        return as_list(burn.jit(function, donate=plan.donated))
    target = plan.target or None
    compiled = burn.compile(function, examples, donate=plan.donated, cache=False, target=target, exact=plan.exact)
    executable = compiled if isinstance(compiled, burn.Executable) else compiled.executable
    match plan.form:
        case "by name":
            return lambda operands: by_name(executable, operands)
        case "saved":
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "program.burn"
                executable.save(path)
                return as_list(burn.load(path))
        case "pickled":
            return as_list(pickle.loads(pickle.dumps(executable)))
        case "threads":
            return lambda operands: by_threads(as_list(compiled), operands)
        case _:
            return as_list(compiled)


def as_list(called: Callable[..., Any]) -> Run:
    def run(operands: Sequence[object]) -> list[Any]:
        results = called(*operands)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    return run


def by_name(executable: burn.Executable, operands: Sequence[object]) -> list[Any]:
    names = [each.name for each in executable.inputs]
    return list(executable.run(dict(zip(names, operands, strict=True))).values())


def by_threads(run: Run, operands: Sequence[object]) -> list[Any]:
    """The results of the first thread; those of others must have the same bits."""
    with ThreadPoolExecutor(CALLERS) as pool:
        first, *others = pool.map(run, [operands] * CALLERS)
    for other in others:
        for a, b in zip(first, other, strict=True):
            if not same(np.asarray(a), np.asarray(b)):
                raise AssertionError("threads have different results")
    return first
