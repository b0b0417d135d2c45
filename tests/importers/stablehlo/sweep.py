"""Drawn programs against XLA: `python -m tests.importers.stablehlo.sweep 500 --seed 1` prints what differs, by op.

Many cases make one module, which is compiled once. A module that fails is run again case by case.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import burn
from burn.errors import BurnError
from tests.importers.stablehlo import complex_cases, larger_cases  # noqa: F401
from tests.importers.stablehlo.cases import FAMILIES, Case, type_of

TOGETHER = 20


def draw(seed: int, count: int, families: Sequence[str] = ()) -> list[Case]:
    """`count` cases, the families in turn."""
    names = list(families or FAMILIES)
    return [FAMILIES[names[i % len(names)]](np.random.default_rng([seed, i])) for i in range(count)]


def module(group: Sequence[Case], twins: bool = False) -> tuple[str, list[np.ndarray]]:
    """One program of all cases, and its arguments."""
    takes, gives, body, functions, args = [], [], [], [], list[np.ndarray]()
    for number, case in enumerate(group):
        given = [f"%v{number}_{i}" for i in range(len(case.args))]
        takes += [f"{v}: {type_of(a)}" for v, a in zip(given, case.args, strict=True)]
        args += case.args
        outs = [f"%o{number}_{i}" for i in range(len(case.gives))]
        types = [t for _, t in case.gives]
        line = f"{', '.join(outs)} = " if outs else ""
        signature = f"({', '.join(type_of(a) for a in case.args)}) -> ({', '.join(types)})"
        body.append(f'{line}"func.call"({", ".join(given)}) <{{callee = @case{number}}}> : {signature}')
        gives += list(zip(outs, types, strict=True))
        functions.append(case.text(f"case{number}", twins))
    values, types = ", ".join(v for v, _ in gives), ", ".join(t for _, t in gives)
    lines = "\n    ".join([*body, f'"func.return"({values}) : ({types}) -> ()'])
    main = f"  func.func public @main({', '.join(takes)}) -> ({types}) {{\n    {lines}\n  }}"
    return "\n".join(["module {", main, *functions, "}"]), args


def by_burn(text: str, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.mlir"
        path.write_text(text)
        program = burn.load(path, cache=False)
    found = program(*args)
    return [np.asarray(r) for r in (found if isinstance(found, (list, tuple)) else [found])]


TOLERANCE = {
    "float64": 1e-12,
    "float32": 2e-6,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "complex64": 1e-5,
    "complex128": 1e-12,
}


def difference(have: np.ndarray, want: np.ndarray, loose: float) -> str:
    """Describes the difference of two arrays; "" if they are equal."""
    if have.dtype != want.dtype or have.shape != want.shape:
        return f"{have.dtype}{have.shape} instead of {want.dtype}{want.shape}"
    if have.dtype.kind in "iub":
        wrong = have != want
    else:
        wide = np.complex128 if have.dtype.kind == "c" else np.float64
        a, b = have.astype(wide), want.astype(wide)
        near = np.isclose(
            a, b, rtol=TOLERANCE[have.dtype.name] * loose, atol=TOLERANCE[have.dtype.name] * loose, equal_nan=True
        )
        small = np.finfo(want.dtype).tiny if want.dtype.kind == "f" and want.dtype.name != "bfloat16" else 1e-38
        wrong = ~(near | ((np.abs(a) < small) & (np.abs(b) < small)))
    if not wrong.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    return f"{int(wrong.sum())} of {wrong.size} elements, first at {at}: {have[at]} instead of {want[at]}"


def run(group: Sequence[Case]) -> dict[int, str]:
    """Runs cases; returns the failures by the number of the case."""
    from tests.importers.stablehlo.reference import by_interpreter, by_xla

    text, args = module(group)
    try:
        if len(group) == 1 and group[0].op == "stablehlo.scatter":
            want = by_interpreter(text, args)
        else:
            want = by_xla(module(group, twins=True)[0], args)
    except Exception as error:
        if len(group) == 1:
            return {0: f"reference: {str(error).strip().splitlines()[0][:200]}"}
        return {i: found[0] for i, case in enumerate(group) if (found := run([case]))}
    try:
        have = by_burn(text, args)
    except BurnError as error:
        if len(group) == 1:
            return {0: f"refused: {error}"}
        return {i: found[0] for i, case in enumerate(group) if (found := run([case]))}
    wrong, at = {}, 0
    for number, case in enumerate(group):
        for _ in case.gives:
            text = difference(have[at], want[at], case.loose)
            if text:
                wrong.setdefault(number, text)
            at += 1
    return wrong


def together(found: Sequence[Case]) -> list[list[int]]:
    """The numbers of cases that make one module; scatters are alone, as their reference is the interpreter."""
    alone = [[i] for i, case in enumerate(found) if case.op == "stablehlo.scatter"]
    rest = [i for i, case in enumerate(found) if case.op != "stablehlo.scatter"]
    return [rest[i : i + TOGETHER] for i in range(0, len(rest), TOGETHER)] + alone


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", action="append", default=[])
    arguments = parser.parse_args()
    found = draw(arguments.seed, arguments.count, arguments.family)
    wrong, ops = Counter(), Counter(case.op for case in found)
    for numbers in together(found):
        for index, text in run([found[i] for i in numbers]).items():
            case = found[numbers[index]]
            wrong[case.op] += 1
            print(f"{case.op} (case {numbers[index]}): {text}", flush=True)
    print(
        f"{sum(ops.values()) - sum(wrong.values())} of {sum(ops.values())} right; {len(ops)} ops; wrong: {dict(wrong)}"
    )


if __name__ == "__main__":
    main()
