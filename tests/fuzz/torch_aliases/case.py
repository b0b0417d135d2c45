"""One program: what it returns, where that lies, what shares memory, what a write does, and gradients. Enter at `case`."""

from __future__ import annotations

import logging
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo

from tests.fuzz.runner import Outcome
from tests.fuzz.torch_aliases.program import Program, drawn


@dataclass
class Seen:
    """The observable results of a run.

    `values`: of the outputs and the inputs, then of both after a write to each output in turn; and gradients. `lies`: sizes,
    strides and offsets of the outputs. `shares`: the pairs of outputs and inputs that share memory."""

    values: list[torch.Tensor]
    lies: list[tuple[Any, ...]]
    shares: list[tuple[int, int]]


def case(seed: int) -> Outcome:
    """The program of a seed."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    program = drawn(seed)
    if not program.lines:
        return Outcome("skipped", "no line fitted")
    try:
        wanted = seen(program, program.function())
    except Exception as error:
        return Outcome("skipped", f"eager: {error}")
    try:
        text = differs(_compiled(program, "burn"), wanted)
    except Exception:
        text = traceback.format_exc()
    if not text:
        return Outcome("ok")
    try:
        theirs = differs(_compiled(program, "aot_eager"), wanted)
    except Exception as error:
        theirs = str(error)
    if theirs:
        return Outcome("skipped", f"torch's own: {theirs}")
    return Outcome("different", f"{text}\n{program.text}")


def _compiled(program: Program, backend: str) -> Seen:
    torch._dynamo.reset()
    return seen(program, torch.compile(program.function(), backend=backend, dynamic=program.dynamic or None))


def seen(program: Program, run: Any) -> Seen:
    """Runs a program on fresh inputs."""
    given = program.inputs()
    with torch.set_grad_enabled(program.gradients):
        outputs = list(run(*given))
    every = [*outputs, *given]
    values = [t.detach().clone() for t in every]
    lies = [(tuple(t.shape), _strides(t), t.storage_offset(), t.dtype, t.requires_grad) for t in outputs]
    shares = [
        (i, j)
        for i, a in enumerate(every)
        for j, b in enumerate(every[:i])
        if a.untyped_storage()._cdata == b.untyped_storage()._cdata and a.numel() and b.numel()
    ]
    if program.gradients:
        total = sum((t * (i + 1)).sum() for i, t in enumerate(outputs) if t.requires_grad)
        if isinstance(total, torch.Tensor):
            total.backward()
        values += [t.grad.clone() for t in given if t.grad is not None]
    for output in outputs:
        with torch.no_grad():
            try:
                output.add_(1)
            except RuntimeError as error:
                assert "single memory location" in str(error) or "view" in str(error), error
                continue
        values += [t.detach().clone() for t in every]
    return Seen(values, lies, shares)


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of axes along which there is a step to take."""
    return tuple(s if n > 1 else 0 for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def differs(got: Seen, wanted: Seen) -> str:
    """The first difference; empty where there is none."""
    for what, ours, theirs in (("lies", got.lies, wanted.lies), ("shares", got.shares, wanted.shares)):
        if ours != theirs:
            return f"{what}: {ours}, torch {theirs}"
    return _different(got.values, wanted.values)


def _different(got: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> str:
    if len(got) != len(wanted):
        return f"{len(got)} values, torch {len(wanted)}"
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if a.shape != b.shape or not torch.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True):
            return f"value {i}: {a.tolist()}, torch {b.tolist()}"
    return ""
