"""FileCheck cases: programs as text, each with the expected result of a pass.

A file in `cases/` begins with `// passes: ...` and holds cases divided by `// -----`; the words after that name them.
A line `// inputs: special` in a case mixes NaN and infinities into its inputs; `// rounds` allows for rounding; `// large`
is too much for interpreters, except in slow tests. `// renews: 0=2` says that output 0 is the next value of input 2.
In a case whose name ends in "stays" a law does not apply.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

from burn.compiler import environment, executable
from burn.dialect.dims import evaluate, symbols
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.text import parse_text, to_text
from burn.dialect.types import DTYPES, TensorType, numpy_dtype
from burn.dialect.weights import Weight, array_weight
from burn.options import Options as CompileOptions
from burn.passes import pipeline
from burn.passes.environment import Environment

FOLDER = Path(__file__).parent / "cases"
PLAIN = "lower_complex,decompose,fuse,release"
"""The passes without which nothing runs."""

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0)


@dataclass(frozen=True)
class Case:
    """One program and its CHECK lines."""

    name: str
    passes: str
    text: str

    @property
    def special(self) -> bool:
        return "// inputs: special" in self.text

    @property
    def stays(self) -> bool:
        """True if a law does not apply in the case: the program does not change."""
        return self.name.endswith("stays")

    @property
    def large(self) -> bool:
        return "// large" in self.text

    @property
    def rounds(self) -> bool:
        return "// rounds" in self.text

    @property
    def adds(self) -> bool:
        """True if the pass adds outputs."""
        return self.passes.startswith("autodiff")


def cases(folder: Path = FOLDER) -> list[Case]:
    found = []
    for path in sorted(folder.glob("*.mlir")):
        head, *parts = re.split(r"^// -----(.*)\n", path.read_text(), flags=re.MULTILINE)
        passes = re.search(r"^// passes: (.*)$", head, flags=re.MULTILINE)
        assert passes is not None, f"{path} does not name its passes"
        for title, text in zip(parts[::2], parts[1::2], strict=True):
            found.append(Case(f"{path.stem}: {title.strip()}", passes[1].strip(), text))
    return found


def check(case: Case, output: str) -> int:
    """filecheck's exit code; it prints what does not match to standard error."""
    options = Options(match_filename=case.name)
    return Matcher(
        options, FInput(case.name, output), Parser(options, io.StringIO(case.text), *pattern_for_opts(options))
    ).run()


def read(case: Case, weights: Mapping[str, Weight] | None = None) -> Program:
    program = parse_text(case.text, weights)
    renewed = re.search(r"^// renews: (.*)$", case.text, flags=re.MULTILINE)
    for output, source in re.findall(r"(\d+)=(\d+)", renewed[1] if renewed else ""):
        program.renews[int(output)] = int(source)
    return program


def random_weights(program: Program) -> dict[str, Weight]:
    """Numbers for every weight that a program names."""
    found = {}
    for block in blocks(program.block):
        for operation in block.operations:
            if operation.operation.name == "burn.weight":
                op = operation.opview
                found[op.key] = array_weight(random(TensorType(op.dtype, op.shape), {}, len(found)))
    return found


def random(type_: TensorType, sizes: Mapping[str, int], seed: int, special: bool = False) -> np.ndarray:
    generator = np.random.default_rng(seed)
    shape = [evaluate(d, sizes) for d in type_.shape]
    kind = DTYPES[type_.dtype].kind
    if kind == "bool":
        return generator.random(shape) < 0.5
    if kind in ("int", "uint"):
        return generator.integers(0 if kind == "uint" else -3, 4, shape).astype(numpy_dtype(type_.dtype))
    values = generator.standard_normal(shape)
    if kind == "complex":
        return (values + 1j * generator.standard_normal(shape)).astype(numpy_dtype(type_.dtype))
    if special:
        values = np.where(generator.random(shape) < 0.4, generator.choice(SPECIAL, shape), values)
    return values.astype(numpy_dtype(type_.dtype))


def inputs(program: Program, special: bool) -> list[np.ndarray]:
    names = sorted({s for t in program.input_types for d in t.shape for s in symbols(d)})
    sizes = {name: 3 + 2 * i for i, name in enumerate(names)}
    return [random(t, sizes, 100 + i, special) for i, t in enumerate(program.input_types)]


def run(program: Program, passes: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    outputs = executable(program, CompileOptions(passes=passes))(*arrays)
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def optimised(case: Case, weights: Mapping[str, Weight]) -> Program:
    program = read(case, weights)
    pipeline.run(pipeline.parse(f"verify,{case.passes},verify"), program, Environment(None, environment().evaluate))
    return program


def text_of(program: Program) -> str:
    return to_text(program)
