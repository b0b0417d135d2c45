"""A random program (tests/fuzz/tensors) with a callback behind every line, in a compiled function. Checked:

- every line is seen once, in order, and what is seen is what the program returns for it, bit for bit;
- under `burn.debug.nans` a run fails if and only if some value has a NaN that no input has.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import burn
from tests.fuzz.runner import Outcome
from tests.fuzz.tensors.burn_side import Burn
from tests.fuzz.tensors.program import Line, Program
from tests.fuzz.tensors.steps import drafted

SEEN = ("float64", "float32", "float16", "bfloat16", "bool", "int8", "int16", "int32", "int64")
SEEN += ("uint8", "uint16", "uint32", "uint64")


class Watched(Burn):
    """burn as a side whose programs call `see` with each value."""

    def __init__(self, see: Callable[[str, np.ndarray], None]) -> None:
        super().__init__()
        self._see = see

    def watched(self, name: str, value: Any) -> Any:
        if isinstance(value, burn.Tensor) and value.dtype in SEEN:
            burn.debug.callback(lambda array: self._see(name, array), value)
        return value


def case(seed: int) -> Outcome:
    """The program of a seed."""
    chance = random.Random(f"debug {seed}")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = drafted(seed, False).program
        names = [name for line in program.lines for name in line.names]
        if not names:
            return Outcome("skipped", "no step fitted")
        outputs = sorted(chance.sample(names, chance.randint(1, len(names))), key=names.index)
        return _looked_at(program, outputs, names) if chance.random() < 0.7 else _checked(program, names)


def _looked_at(program: Program, outputs: list[str], names: list[str]) -> Outcome:
    seen: list[tuple[str, np.ndarray]] = []
    lines = []
    for line in program.lines:
        lines.append(line)
        lines += [Line((name,), f"m.watched('{name}', {name})") for name in line.names]
    watched = Program(program.inputs, lines)
    function = watched.function(outputs, Watched(lambda name, array: seen.append((name, array))))
    try:
        results = burn.jit(function)(*program.inputs)
    except burn.RunError as error:
        return Outcome("skipped", str(error))
    values = dict(zip(outputs, results, strict=True))
    order = [name for name, _ in seen]
    if len(set(order)) != len(order) or order != sorted(order, key=names.index):
        return Outcome("order", f"{order}\n{watched.text(outputs)}")
    expected = [name for name in outputs if str(np.asarray(values[name]).dtype) in SEEN]
    if missing := set(expected) - set(order):
        return Outcome("missing", f"{missing}\n{watched.text(outputs)}")
    for name, array in seen:
        if name in values and not _same(array, np.asarray(values[name])):
            return Outcome("different", f"{name}: {array} instead of {values[name]}\n{watched.text(outputs)}")
    return Outcome("ok")


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _checked(program: Program, names: list[str]) -> Outcome:
    function = program.function(names, Burn())
    floats = [x for x in program.inputs if x.dtype.kind == "f"]
    if any(np.isnan(x).any() for x in floats):
        return Outcome("skipped", "an input has a NaN")
    plain = burn.jit(function)
    try:
        values = [np.asarray(v) for v in plain(*program.inputs)]
    except burn.RunError as error:
        return Outcome("skipped", str(error))
    makes = [n for n, v in zip(names, values, strict=True) if _is_nan(v)]
    text = program.text(names)
    try:
        with burn.debug.nans():
            again = [np.asarray(v) for v in plain(*program.inputs)]
    except burn.RunError as error:
        # a line may make a NaN inside and return none
        return Outcome("ok") if "is NaN (or infinite" in str(error) else Outcome("refusal", f"{error}\n{text}")
    if makes:
        return Outcome("unseen", f"{makes} have a NaN\n{text}")
    same = all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(values, again, strict=True))
    return Outcome("ok") if same else Outcome("different", text)


def _is_nan(value: np.ndarray) -> bool:
    try:
        return bool(np.isnan(value).any())
    except TypeError:
        return False
