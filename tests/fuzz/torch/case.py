"""One module: through torch.compile with gradients, and through burn.compile, against eager torch. Enter at `case`."""

from __future__ import annotations

import copy
import logging
import os
import traceback
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch._dynamo.exc

import burn
import burn.adapters.torch
from tests.fuzz.runner import Outcome
from tests.fuzz.torch.noise import Noise
from tests.fuzz.torch.program import Program, drawn

NEAR = 2e-5
SPREADS = 40
"""Times that an element may be off by as much as float32 is from float64 in torch itself."""
TRIALS = 20
MOVED = 0.25
"""Of a difference: noise that moves a result so far may as well move it all the way."""
OTHER_SIZES = (2, 3, 6, 1, 0)

TARGET = os.environ.get("BURN_FUZZ_TARGET") or None
DEVICE = os.environ.get("BURN_FUZZ_DEVICE", "cpu")

Values = list[tuple[str, torch.Tensor]]


def case(seed: int) -> Outcome:
    """The module of a seed: first through burn.compile, then through torch.compile. BURN_FUZZ_TARGET names a CPU to compile
    for."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    program = drawn(seed)
    if not program.lines:
        return Outcome("skipped", "no step fitted")
    sizes = [program.shape[0], *OTHER_SIZES[:3]] if program.named else [program.shape[0]]
    refused = None
    for way in (direct, through_dynamo):
        torch._dynamo.reset()
        try:
            outcome = way(program, sizes)
        except burn.BurnError as error:
            outcome = Outcome("refused", f"{type(error).__name__}: {error}")
        except Exception as error:
            inner: Any = error
            while getattr(inner, "inner_exception", None) is not None:
                inner = inner.inner_exception
            if isinstance(inner, burn.BurnError):
                outcome = Outcome("refused", f"{type(inner).__name__}: {inner}")
            elif isinstance(inner, torch._dynamo.exc.TorchDynamoException):
                outcome = Outcome("skipped", f"torch refuses: {inner}")
            else:
                outcome = Outcome("exception", traceback.format_exc())
        if outcome.failed:
            return Outcome(outcome.kind, f"{way.__name__}: {outcome.detail}\n{program.text}")
        if outcome.kind == "refused":
            refused = Outcome(outcome.kind, f"{way.__name__}: {outcome.detail}\n{program.text}")
    return refused or Outcome("ok")


def direct(program: Program, sizes: list[int]) -> Outcome:
    """Through burn.compile; other sizes may be refused at the call."""
    module = program.module()
    x, _ = program.tensors()
    try:
        compiled = burn.compile(
            module, (x,), {"x": {0: "rows"}} if program.named else None, target=TARGET, device=DEVICE
        )
    except burn.ModelError as error:
        if "cannot be exported" in str(error) or "fixed by the module" in str(error):
            return Outcome("skipped", str(error))
        raise
    for size in sizes:
        x, _ = program.tensors(size)
        wanted = results(module, x, False)
        if wanted is None:
            continue  # the module is not for this size
        try:
            with torch.no_grad():
                got = [("result", compiled(x))]
        except burn.RunError:
            if size == sizes[0]:
                raise
            continue
        text = judged(module, x, got, wanted, False)
        if text:
            return Outcome("different", f"{size} rows: {text}")
    return Outcome("ok")


def through_dynamo(program: Program, sizes: list[int]) -> Outcome:
    """The result and all gradients."""
    module = program.module()
    dynamic = True if program.named else None
    options: Any = {"target": TARGET} if TARGET else {}
    there = copy.deepcopy(module).to(DEVICE)
    compiled: Any = torch.compile(there, backend="burn", dynamic=dynamic, options=options)
    for size in sizes[: 2 if program.named else 1]:
        x, _ = program.tensors(size)
        wanted = results(module, x, True)
        if wanted is None:
            continue
        got = results(there, x.to(DEVICE), True, compiled)
        assert got is not None
        got = [(name, value.cpu()) for name, value in got]
        text = judged(module, x, got, wanted, True)
        if text:
            return Outcome("different", f"{size} rows: {text}")
    return Outcome("ok")


def twin(module: torch.nn.Module) -> torch.nn.Module:
    return copy.deepcopy(module).double()


def results(module: torch.nn.Module, x: torch.Tensor, gradients: bool, run: Any = None) -> Values | None:
    """The results of a module, and the gradients of its input and parameters; None if eager torch refuses."""
    module.zero_grad()
    x = x.clone().requires_grad_(gradients)
    try:
        # constants of the program are on the device of x
        with torch.set_grad_enabled(gradients), nullcontext() if x.device.type == "cpu" else x.device:
            out = (module if run is None else run)(x)
            values = [("result", out.detach())]
            if gradients and out.requires_grad:
                generator = torch.Generator().manual_seed(5)
                out.backward(torch.randn(out.shape, generator=generator, device="cpu").to(out))
    except Exception:
        if run is not None:
            raise
        return None
    named = [("x0", x), *((f"p[{i}]", p) for i, p in enumerate(module.parameters()))] if gradients else []
    return values + [(f"gradient of {n}", t.grad) for n, t in named if t.grad is not None]


def judged(module: torch.nn.Module, x: torch.Tensor, got: Values, wanted: Values, gradients: bool) -> str:
    """The first value that differs by more than rounding explains; empty where none does."""
    exact = results(twin(module), x.double(), gradients)
    if not difference(got, wanted, exact):
        return ""
    shaken: list[Values] = []
    for trial in range(TRIALS):
        with Noise(trial):
            values = results(module, x, gradients)
        if values is None or [v.shape for _, v in values] != [v.shape for _, v in wanted]:
            return ""  # rounding decides whether it runs, or how much comes out
        shaken.append(values)
    return difference(got, wanted, exact, shaken)


def difference(got: Values, wanted: Values, exact: Values | None, shaken: Sequence[Values] = ()) -> str:
    """The same, where `exact` is torch in float64, and `shaken` torch with noise."""
    if [n for n, _ in got] != [n for n, _ in wanted]:
        return f"{[n for n, _ in got]}, torch has {[n for n, _ in wanted]}"
    truths = dict(exact or ())
    for number, ((name, a), (_, b)) in enumerate(zip(got, wanted, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{list(a.shape)}, torch {b.dtype}{list(b.shape)}"
        truth = truths.get(name)
        if not b.numel() or truth is None or truth.shape != b.shape:
            continue
        a, b = a.double(), b.double()
        finite = b.isfinite() & truth.isfinite()
        spread = torch.where(finite, (b - truth).abs(), 0).max()
        top = torch.where(finite, b.abs(), 0).max()
        if SPREADS * spread > 0.5 * top + 1e-30 and spread > NEAR:
            continue  # rounding decides
        moved = torch.stack([torch.zeros_like(b), *((values[number][1] - b).abs() for values in shaken)])
        allowed = NEAR * (b.abs() + top + 0.01) + SPREADS * spread + moved.amax(0) / MOVED
        bad = finite & ~((a - b).abs() <= allowed) | (b.isfinite() != a.isfinite()) & (truth.isfinite() == b.isfinite())
        bad &= moved.isfinite().all(0) | ~b.isfinite()
        if bad.any():
            index = tuple(bad.nonzero()[0].tolist())
            return f"{name}: {int(bad.sum())} of {bad.numel()}; at {list(index)} {a[index]:.8g}, torch {b[index]:.8g}"
    return ""
