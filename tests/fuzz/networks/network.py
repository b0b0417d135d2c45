"""A random network: an input's shape and the lines that a seed draws, each tried with torch as it is written: `drawn`."""

from __future__ import annotations

import math
import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.fuzz.networks.layers import LAYERS, WIDTHS, Draw

LONGEST = 7
TRIES = 8
LARGE = 40_000
"""Elements that a value may have."""
HUGE = 1e3
"""Larger values say little: rounding hides everything else."""
SIZES = {1: (1, 2, 3, 7, 16, 17, 31, 40), 2: (1, 2, 3, 5, 7, 8, 13, 16, 19), 3: (1, 2, 3, 4, 5, 7)}


def scanned(cell: nn.Module, x: torch.Tensor, backwards: bool) -> torch.Tensor:
    """The hidden states of a cell over the steps of x [batch, steps, features], as [batch, steps, hidden]."""
    state: Any = None
    found = []
    steps = range(x.shape[1])
    for at in reversed(steps) if backwards else steps:
        state = cell(x[:, at], state)
        found.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(found, 1)


@dataclass(frozen=True)
class Program:
    """shape: of the input. modules: constructors. lines: expressions over `x`, each the next value of `x`."""

    seed: int
    shape: tuple[int, ...]
    modules: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        body = "".join(f"    x = {line}\n" for line in self.lines)
        used = sorted({int(n) for line in self.lines for n in re.findall(r"\bm\[(\d+)\]", line)})
        return (
            "".join([f"# x: {list(self.shape)}\n", *(f"# m[{n}]: {self.modules[n]}\n" for n in used)])
            + f"def forward(m, x):\n{body}    return x"
        )

    def input(self, batch: int | None = None) -> torch.Tensor:
        shape = self.shape if batch is None else (batch, *self.shape[1:])
        return torch.randn(shape, generator=torch.Generator().manual_seed(self.seed + sum(shape)))

    def module(self) -> Network:
        """In training mode. Parameters and the statistics of batch norms are drawn."""
        made = Network(self)
        made(self.input())  # lazy layers get their shapes
        generator = torch.Generator().manual_seed(self.seed)
        with torch.no_grad():
            for name, p in [*made.named_parameters(), *made.named_buffers()]:
                if p.is_floating_point():
                    fan = math.sqrt(max(1, p[0].numel())) if p.dim() > 1 else 2.0
                    p.copy_(torch.randn(p.shape, generator=generator) / fan)
                    if name.endswith("running_var") or (p.dim() == 1 and "weight" in name):
                        p.abs_().add_(0.5)
        return made


class Network(nn.Module):
    def __init__(self, program: Program) -> None:
        super().__init__()
        scope: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "scanned": scanned}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.m = nn.ModuleList([eval(text, scope) for text in program.modules])
        exec(str(program), scope)
        self.function: Callable[..., torch.Tensor] = scope["forward"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.m, x)


def drawn(seed: int) -> Program:
    chance = random.Random(f"network {seed}")
    axes = chance.choice((1, 1, 2, 2, 2, 2, 3))
    batch = chance.choice((0, 1, 1, 1, 2, 3, 4, 5, 16) if chance.random() < 0.3 else (1, 2, 3, 4))
    program = Program(seed, (batch, chance.choice(WIDTHS), *(chance.choice(SIZES[axes]) for _ in range(axes))))
    x = program.input()
    for _ in range(chance.randint(1, LONGEST)):
        for _ in range(TRIES):
            found = _next(chance, program, x)
            if found is not None:
                program, x = found
                break
    return program


def _next(chance: random.Random, program: Program, x: torch.Tensor) -> tuple[Program, torch.Tensor] | None:
    """With one more line, and its value; None if torch refuses the line or its value is of no use."""
    (layer,) = chance.choices([layer for _, layer in LAYERS], [weight for weight, _ in LAYERS])
    draw = Draw(chance, tuple(x.shape), list(program.modules))
    try:
        line = layer(draw)
        longer = replace(program, modules=tuple(draw.modules), lines=(*program.lines, line))
        with torch.no_grad():
            value = longer.module()(program.input())
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, AssertionError, KeyError):
        return None
    if value.dim() not in (3, 4, 5) or value.numel() > LARGE or value.numel() == 0 < x.numel():
        return None
    if value.numel() and not value.abs().max().item() < HUGE:
        return None
    return longer, value
