"""A random program of views, in-place writes, aliases and graph breaks: each line is tried with torch as it is written. Enter at
`drawn`."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

DEVICE = os.environ.get("BURN_FUZZ_DEVICE", "cpu")
"""Of all tensors."""
SIZES = (1, 2, 3, 4, 5)
LONGEST = 9
TRIES = 6
LARGE = 400
HUGE = 1e4
BREAK = "torch._dynamo.graph_break()"
SHARING, DYNAMIC, VIEW_OF_WRITTEN = 0.4, 0.4, 0.3
"""Shares of inputs that share memory with an earlier one, of programs with dynamic sizes, and of lines that view what was just
written."""
PARTS = (
    "made[{}]",
    "made[{}][1:]",
    "made[{}].flatten()",
    "made[{}].transpose(0, -1)",
    "made[{}][..., ::2]",
    "made[{}][:1]",
)


@dataclass
class Program:
    """`lines` are statements over v0 .. (the first ones are the inputs); `results` are returned. forms: how each input is made,
    of a contiguous tensor `t` of its own or of an earlier input."""

    shapes: list[tuple[int, ...]]
    forms: list[str]
    lines: list[str]
    results: list[str]
    gradients: bool
    dynamic: bool
    seed: int

    @property
    def text(self) -> str:
        arguments = ", ".join(f"v{i}" for i in range(len(self.forms)))
        first = ["v0 = v0 * 1"] if self.gradients else []
        body = "".join(f"    {line}\n" for line in (*first, *self.lines))
        inputs = "; ".join(f"v{i}: {list(s)} {f}" for i, (s, f) in enumerate(zip(self.shapes, self.forms, strict=True)))
        kind = f"gradients {self.gradients}, dynamic {self.dynamic}"
        return f"# {inputs}; {kind}\ndef f({arguments}):\n{body}    return {', '.join(self.results)},"

    def function(self) -> Callable[..., tuple[torch.Tensor, ...]]:
        scope: dict[str, Any] = {"torch": torch}
        exec(self.text, scope)
        return scope["f"]

    def inputs(self) -> list[torch.Tensor]:
        """Fresh inputs, always the same: small whole numbers, so that nothing is rounded."""
        generator = torch.Generator("cpu").manual_seed(self.seed)
        made: list[torch.Tensor] = []
        for shape, form in zip(self.shapes, self.forms, strict=True):
            t = torch.randint(-3, 4, shape, generator=generator, device="cpu").float().to(DEVICE)
            made.append(eval(form, {"t": t, "made": made, "torch": torch}))
        if self.gradients:
            made = [m.detach().requires_grad_(i == 0) for i, m in enumerate(made)]
        return made


def drawn(seed: int) -> Program:
    """The program of a seed."""
    chance = random.Random(seed)
    shapes, forms = [], []
    for i in range(chance.choice((1, 1, 2, 2, 3))):
        shape = tuple(chance.choice(SIZES) for _ in range(chance.choice((1, 2, 2, 3, 4))))
        shapes.append(shape)
        forms.append(_form(chance, shape, i))
    program = Program(shapes, forms, [], [], chance.random() < 0.4, chance.random() < DYNAMIC, seed)
    number = len(forms)
    for _ in range(chance.randint(2, LONGEST)):
        if chance.random() < 0.15:
            program.lines.append(BREAK)
            continue
        for _ in range(TRIES):
            line = _line(chance, number, program)
            program.lines.append(line)
            program.results = [f"v{number}" if line.startswith(f"v{number} =") else "v0"]
            if _fits(program):
                number += program.results[0] == f"v{number}"
                break
            program.lines.pop()
    names = [f"v{i}" for i in range(number)]
    chosen = chance.sample(names, min(len(names), chance.randint(1, 4)))
    program.results = chosen + [n for n in [names[-1]] if n not in chosen]
    return program


def _form(chance: random.Random, shape: Sequence[int], i: int) -> str:
    if i and chance.random() < SHARING:
        return chance.choice(PARTS).format(chance.randrange(i))
    forms = ["t", "t", "t", "torch.cat([t, t])[::2][: t.shape[0]]", "torch.stack([t, t], -1)[..., 1]"]
    if len(shape) > 1:
        forms += ["t.transpose(0, 1)", "t.transpose(0, -1).contiguous().transpose(0, -1)", "t[0].expand(t.shape)"]
    if len(shape) == 4:
        forms += ["t.contiguous(memory_format=torch.channels_last)"] * 3
    return chance.choice(forms)


def _fits(program: Program) -> bool:
    """True if eager torch runs it, with informative sizes."""
    try:
        given = program.inputs()
        value = program.function()(*given)[0]
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        return False
    magnitude = value.abs().max().item() if value.numel() else 0.0
    return 0 < value.numel() <= LARGE and magnitude < HUGE and value.dtype in (torch.float32, torch.int32)


VIEWS = (
    "{a}.t()", "{a}.transpose(0, -1)", "{a}.transpose(-1, -2)", "{a}[{i}]", "{a}[..., {i}]", "{a}[{i}:]",
    "{a}[:, :{j}]", "{a}[::2]", "{a}[..., 1::2]", "{a}.chunk(2, -1)[{k}]", "{a}.unbind(0)[-1]", "{a}.split(1, -1)[0]",
    "{a}.unsqueeze({i})", "{a}.squeeze()", "{a}.flatten()", "{a}.reshape(-1)", "{a}.view(-1)",
    "{a}.view({a}.shape[0], -1)", "{a}.diagonal()", "{a}.expand(2, *{a}.shape)", "{a}.narrow(0, 0, 1)", "{a}.detach()",
    "{a}.mT", "{a}.roll(1, 0)", "{a}.view_as({a})", "{a}.contiguous()", "{a}.unfold(0, 2, 1)", "{a}.movedim(0, -1)",
    "{a}.select(-1, -1)", "{a}[None]", "{a}.swapaxes(0, 1)",
)  # fmt: skip
MADE = (
    "{a} * 2", "{a} + 1", "{a} + {b}", "{a} * {b}", "{a}.relu()", "{a}.clone()", "torch.zeros_like({a})",
    "torch.zeros(2, 3)", "torch.cat([{a}, {b}])", "torch.where({a} > 0, {a}, {b})", "{a}.sum(0)",
    "{a}.new_ones({a}.shape)", "{a}.t() + 1", "torch.stack([{a}, {a}], -1)", "{a} @ {b}", "{a}.clamp(-2, 2)",
    "{a}.sum()", "-{a}", "{a}.transpose(0, -1) * 2", "torch.copysign({a}, {b})", "{a} // 2", "torch.ldexp({a}, {b})",
    "torch.logaddexp({a}, {b})", "torch.xlogy({a}, {b}.abs())", "{a}.transpose(0, -1).clone()", "2 ** {a}",
)  # fmt: skip
WRITES = (
    "{a}.mul_(2)", "{a}.add_({b})", "{a}.add_(1)", "{a}.copy_({b})", "{a}.zero_()", "{a}.fill_(3)", "{a}[{i}] = 2",
    "{a}[..., {i}] = {b}", "{a}[:{j}].add_(1)", "{a}.relu_()", "{a}.neg_()", "{a}.masked_fill_({a} > 1, -1)",
    "{a}[{a} > 1] = 0", "{a}.t().add_(1)", "{a}.clamp_(-2, 2)", "{a}.transpose(0, -1)[0].mul_(2)",
    "{a}.diagonal().add_(1)", "{a}[{i}:] = {b}", "{a}.t_()", "{a}.unsqueeze_(0)",
    "{a}.index_fill_(0, torch.tensor([0]), 1)", "{a}.sub_({a}[0])", "{a}.view(-1)[0].add_(1)", "{a}.squeeze_()",
)  # fmt: skip


def _line(chance: random.Random, number: int, program: Program) -> str:
    names = {
        "a": f"v{chance.randrange(max(0, number - 4), number) if chance.random() < 0.7 else chance.randrange(number)}",
        "b": f"v{chance.randrange(number)}",
        "i": chance.randrange(2),
        "j": chance.randint(1, 2),
        "k": chance.choice((0, -1)),
    }
    kind = chance.choices((VIEWS, MADE, WRITES), (5, 3, 4))[0]
    written = [line.split("[")[0].split(".")[0] for line in program.lines[-1:] if _writes(line)]
    if written and chance.random() < VIEW_OF_WRITTEN:
        kind, names["a"] = VIEWS, written[0]
    text = chance.choice(kind).format(**names)
    return text if kind is WRITES else f"v{number} = {text}"


def _writes(line: str) -> bool:
    """True for a statement that writes in place."""
    return line != BREAK and not re.match(r"v\d+ = ", line)
