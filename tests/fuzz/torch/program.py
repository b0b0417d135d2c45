"""A random module: the lines that a seed draws, each tried with torch as it is written. Enter at `drawn`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from tests.fuzz.torch.steps import STEPS, Draw

SIZES = (1, 2, 3, 4, 5, 7)
LONGEST = 8
TRIES = 6
LARGE = 4000
"""Elements that a value may have."""
HUGE = 1e4
"""Values beyond this say little: everything else drowns in their rounding."""


@dataclass
class Program:
    """`lines` are expressions over earlier values (x0 is the input) and parameters p[i]."""

    shape: tuple[int, ...]
    lines: list[str]
    parameters: list[tuple[int, ...]]
    seed: int
    named: bool

    @property
    def text(self) -> str:
        body = "".join(f"    x{i + 1} = {line}\n" for i, line in enumerate(self.lines))
        shapes = f"# x0: {list(self.shape)}, {'the first size varies; ' * self.named}p: {self.parameters}"
        return f"{shapes}\ndef forward(x0, p):\n{body}    return x{len(self.lines)}"

    def function(self) -> Callable[..., Any]:
        scope: dict[str, Any] = {"torch": torch, "F": F}
        exec(self.text, scope)
        return scope["forward"]

    def tensors(self, size: int | None = None) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The input, with another first size if one is given, and the parameters."""
        generator = torch.Generator().manual_seed(self.seed)
        shape = self.shape if size is None else (size, *self.shape[1:])
        x = torch.randn(shape, generator=torch.Generator().manual_seed(self.seed + sum(shape)))
        return x, [torch.randn(s, generator=generator) * 0.5 for s in self.parameters]

    def module(self) -> torch.nn.Module:
        _, parameters = self.tensors()
        return Module(self.function(), parameters)


class Module(torch.nn.Module):
    """A program with its parameters."""

    def __init__(self, function: Callable[..., Any], parameters: list[torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.p = torch.nn.ParameterList(parameters)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, [self.p[i] for i in range(len(self.p))])


def drawn(seed: int) -> Program:
    """The program of a seed. Some have an empty input, some one whose first size varies."""
    chance = random.Random(seed)
    shape = tuple(chance.choice(SIZES) for _ in range(chance.choice((1, 2, 2, 3, 3, 4))))
    if chance.random() < 0.08:
        axis = chance.randrange(len(shape))
        shape = (*shape[:axis], 0, *shape[axis + 1 :])
    named = chance.random() < 0.4 and shape[0] > 1
    program = Program(shape, [], [], seed, named)
    value, _ = program.tensors()
    scope: dict[str, Any] = {"torch": torch, "F": F, "x0": value}
    for number in range(chance.randint(1, LONGEST)):
        for _ in range(TRIES):
            found = _next(chance, program, scope, number)
            if found is not None:
                scope[f"x{number + 1}"] = found
                break
        else:
            break
    return program


def _next(chance: random.Random, program: Program, scope: dict[str, Any], number: int) -> torch.Tensor | None:
    """The value of one more line, which is added to the program; None where it does not run."""
    (step,) = chance.choices([s for _, s in STEPS], [w for w, _ in STEPS])
    before = len(program.parameters)
    current = scope[f"x{number}"]
    try:
        others = [f"x{chance.randrange(number + 1)}"]
        line = step(Draw(chance, tuple(current.shape), program.parameters, others))
        _, parameters = program.tensors()
        line = _in_terms_of(line, f"x{number}")
        value = eval(line, {**scope, "p": parameters})
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, AssertionError):
        del program.parameters[before:]
        return None
    magnitude = value.abs().max().item() if value.numel() else 0.0
    if not value.is_floating_point() or value.numel() > LARGE or not math.isfinite(magnitude) or magnitude > HUGE:
        del program.parameters[before:]
        return None
    program.lines.append(line)
    return value


def _in_terms_of(line: str, name: str) -> str:
    """A step's line with the tensor's name for its `x`."""
    import re

    return re.sub(r"\bx\b", name, line)
