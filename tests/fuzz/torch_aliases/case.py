"""One program: what it returns, where that lies, what shares memory, what a write does, and gradients. Enter at `case`."""

from __future__ import annotations

import logging
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
import torch._dynamo

import burn.adapters.torch  # noqa: F401  # registers the back end if burn is not installed, only found on the path
from tests.fuzz.runner import Outcome
from tests.fuzz.torch_aliases.program import DEVICE, Program, drawn


@dataclass
class Seen:
    """The observable results of a run.

    `lies`: sizes, strides and offsets of the outputs. `shares`: the pairs of outputs and inputs that share memory. `values`: of
    the outputs and the inputs. `gradients`: of the inputs. `written`: values of outputs and inputs after a write to each output
    in turn."""

    lies: list[tuple[Any, ...]]
    shares: list[tuple[int, int]]
    values: list[torch.Tensor]
    gradients: list[torch.Tensor]
    written: list[torch.Tensor]


def case(seed: int) -> Outcome:
    """The program of a seed."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    torch.set_default_device(DEVICE)
    program = drawn(seed)
    if not program.lines:
        return Outcome("skipped", "no line fitted")
    try:
        wanted = seen(program, program.function())
    except Exception as error:
        return Outcome("skipped", f"eager: {error}")
    try:
        ours: Seen | str = _compiled(program, "burn")
    except Exception:
        ours = traceback.format_exc()
    text = ours if isinstance(ours, str) else differs(ours, wanted)
    if not text:
        return Outcome("ok")
    try:
        theirs = _compiled(program, "aot_eager")
    except Exception as error:
        return Outcome("skipped", f"torch's own: {error}")
    if isinstance(ours, str) or differs(ours, wanted, theirs):
        return Outcome("different", f"{text}\n{program.text}")
    return Outcome("skipped", f"torch's own: {differs(theirs, wanted)}")


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
    gradients = [t.grad.clone() for t in given if t.grad is not None]
    written: list[torch.Tensor] = []
    for output in outputs:
        with torch.no_grad():
            try:
                output.add_(1)
            except RuntimeError as error:
                assert "single memory location" in str(error) or "view" in str(error), error
                continue
        written += [t.detach().clone() for t in every]
    return Seen(lies, shares, values, gradients, written)


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of axes along which there is a step to take."""
    if not tensor.numel():
        return ()
    return tuple(s if n > 1 else 0 for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def differs(got: Seen, wanted: Seen, also: Seen | None = None) -> str:
    """The first difference; empty if there is none. also: results that are taken for right, part by part. They are those of
    AOTAutograd without burn, so that its mistake in a stride hides none of burn's in a value."""
    for field in fields(Seen):
        allowed = [wanted] if also is None else [wanted, also]
        texts = [_different(getattr(got, field.name), getattr(seen, field.name)) for seen in allowed]
        if all(texts):
            return f"{field.name}: {texts[0]}"
    return ""


def _different(got: Sequence[Any], wanted: Sequence[Any]) -> str:
    if len(got) != len(wanted):
        return f"{len(got)} of them, torch {len(wanted)}: {got}, torch {wanted}"
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if not isinstance(a, torch.Tensor):
            if a != b:
                return f"{i}: {a}, torch {b}"
        elif a.shape != b.shape or not torch.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True):
            return f"{i}: {a.tolist()}, torch {b.tolist()}"
    return ""
