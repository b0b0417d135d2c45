"""A program becomes a StableHLO module: `stablehlo_of`."""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.stablehlo.lowering import PASSES, Signature, text_of
from burn.compiler import environment
from burn.dialect.program import Program
from burn.passes import pipeline


def stablehlo_of(
    program: Program, sizes: Mapping[str, int] | None = None, *, weights_inside: bool = True, name: str = "burn"
) -> tuple[str, Signature]:
    """A module whose `main` computes the program, and its signature:

        text, signature = stablehlo_of(program, {"batch": 8})

    sizes: a number for each named size of the inputs. weights_inside: constants are in the text; otherwise they are arguments
    behind the inputs, in the order of `signature.weights`, which has their keys in the weight store as names.

    A program with random numbers has one input more, the last: `random_state`, uint64[2], a seed and a number that is new at each
    run. An index out of range is clamped, and one of a scatter is ignored: StableHLO has no errors at run time. The program is
    not changed. Raises CompileError that lists every op without a form in StableHLO, and for sizes that are missing or do not fit
    each other."""
    return text_of(prepared(program), dict(sizes or {}), weights_inside, name)


def prepared(program: Program) -> Program:
    """A copy in primitive ops."""
    copy = program.copy()
    pipeline.run(pipeline.parse(PASSES), copy, environment())
    return copy
