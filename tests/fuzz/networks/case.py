"""One network in one of burn's ways, for a drawn target, precision, variant and number of threads, beside torch in float64.

Enter at `case`. A failing network is cut down to few layers.
"""

from __future__ import annotations

import copy
import logging
import os
import random
import traceback
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch._dynamo.exc

import burn
from tests.codegen.cpus import RUNNABLE
from tests.fuzz.gradients.noise import Rounding
from tests.fuzz.networks.network import Network, Program, drawn
from tests.fuzz.runner import Outcome

WAYS = ("compile", "compile", "named", "dynamo", "dynamo", "dynamo", "step")
TARGETS = (None, None, "avx512", "avx2", "generic")
PRECISIONS = ("float32", "float32", "float32", "bfloat16", "bfloat16", "float16")
DEVICE = os.environ.get("BURN_FUZZ_DEVICE", "cpu")
NEAR = {"float32": 2e-5, "float16": 6e-3, "bfloat16": 4e-2}
SPREADS = 12.0
"""Times that an element may be off by as much as runs with noise differ."""
JUDGES = ((4, 1.0), (12, 3.0))
"""Runs with noise, and its scale, that a difference has to exceed, one after the other."""

SIMPLER: tuple[dict[str, Any], ...] = ({"autotune": None}, {"threads": 1}, {"target": None})
"""Changes to a failing plan that may leave it failing."""
REFUSED = ("cannot be exported", "fixed by the module", "there is nothing to train")
"""Refusals of burn that are right."""

Values = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Plan:
    """way: "compile" and "named" (the batch varies) by `burn.compile`, "dynamo" by `torch.compile` with gradients, "step" one
    step of SGD by `burn.train.step`. autotune: a seed of drawn variants."""

    program: Program
    way: str
    target: str | None
    precision: str
    autotune: int | None
    threads: int

    def __str__(self) -> str:
        names = ("way", "target", "precision", "autotune", "threads")
        return f"# {', '.join(f'{n}={getattr(self, n)}' for n in names)}, {DEVICE}\n{self.program}"

    @property
    def training(self) -> bool:
        return self.way in ("dynamo", "step")


def planned(seed: int) -> Plan:
    chance = random.Random(f"plan {seed}")
    on_cpu = DEVICE == "cpu"
    way = chance.choice(("compile", "named", "step") if DEVICE == "wgpu" else WAYS)
    target = chance.choice(TARGETS) if on_cpu and way != "step" else None
    target = target if target in RUNNABLE else None
    precision = chance.choice(PRECISIONS)
    autotune = chance.randrange(1 << 20) if chance.random() < 0.4 and on_cpu else None
    return Plan(drawn(seed), way, target, precision, autotune, chance.choice((1, 2)))


def case(seed: int) -> Outcome:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    plan = planned(seed)
    if not plan.program.lines:
        return Outcome("skipped", "no layer fitted")
    outcome = attempt(plan)
    return cut_down(plan, outcome) if outcome.failed else outcome


def cut_down(plan: Plan, found: Outcome) -> Outcome:
    """The same kind of failure with lines left out, or with simpler options."""
    smaller = True
    while smaller:
        smaller = False
        lines = plan.program.lines
        tries = [
            replace(plan, program=replace(plan.program, lines=lines[:n] + lines[n + 1 :])) for n in range(len(lines))
        ]
        tries += [replace(plan, **change) for change in SIMPLER]
        for each in tries:
            if each == plan or not each.program.lines:
                continue
            try:
                each.program.module()
            except Exception:
                continue
            outcome = attempt(each)
            if outcome.kind == found.kind:
                plan, found, smaller = each, outcome, True
                break
    return found


def attempt(plan: Plan) -> Outcome:
    torch._dynamo.reset()
    burn.set_num_threads(plan.threads)
    autotune = {} if plan.autotune is None else {"BURN_AUTOTUNE": f"any:{plan.autotune}"}
    batches = [None, 1, 3, 6] if plan.way == "named" and plan.program.shape[0] > 1 else [None]
    try:
        with mock.patch.dict(os.environ, autotune):
            run = prepared(plan)
            for batch in batches:
                if batch is not None and not fits(plan, batch):
                    continue
                got = run(plan.program.input(batch))
                if text := judged(plan, batch, got):
                    return Outcome("different", f"batch {batch}: {text}\n{plan}")
    except Exception as error:
        inner: Any = error
        while getattr(inner, "inner_exception", None) is not None:
            inner = inner.inner_exception
        told = f"{type(inner).__name__}: {inner}"
        if isinstance(inner, burn.BurnError):
            return Outcome("skipped" if any(text in told for text in REFUSED) else "refusal", f"{told}\n{plan}")
        if isinstance(inner, torch._dynamo.exc.TorchDynamoException) or "primitive descriptor" in told:
            return Outcome("skipped", f"torch refuses: {inner}")
        return Outcome("exception", f"{traceback.format_exc()[-3000:]}\n{plan}")
    return Outcome("ok")


def fits(plan: Plan, batch: int) -> bool:
    """True if the network itself takes the batch."""
    try:
        with torch.no_grad():
            plan.program.module().eval()(plan.program.input(batch))
    except Exception:
        return False
    return True


# ---- running ---------------------------------------------------------------------------------------------------------------
def prepared(plan: Plan) -> Any:
    """A function of the input that gives named results."""
    module = plan.program.module().train(plan.training)
    x = plan.program.input()
    if plan.way in ("compile", "named"):
        dynamic: Any = {0: {0: "batch"}} if plan.way == "named" and x.shape[0] > 1 else None
        compiled = burn.compile(
            module, (x,), dynamic, target=plan.target, precision=plan.precision, device=DEVICE, cache=False
        )
        return lambda x: {"result": inferred(compiled, x)}
    if plan.way == "step":
        return lambda x: stepped(plan, module, x)
    half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(plan.precision)
    options = {"target": plan.target} if plan.target else {}
    module.to(DEVICE)
    compiled = torch.compile(module, backend="burn", options=options)

    def run(x: torch.Tensor) -> Values:
        # By default Dynamo leaves recurrent layers, and often what follows, to eager mode.
        with (
            torch._dynamo.config.patch(allow_rnn=True),
            nullcontext() if half is None else torch.autocast(DEVICE, half),
        ):
            found = results(module, x.to(DEVICE), compiled)
        return {name: value.cpu() for name, value in found.items()}

    return run


def inferred(compiled: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return compiled(x)


def stepped(plan: Plan, module: Network, x: torch.Tensor) -> Values:
    """The gradients of a step of SGD at rate 1: it subtracts them from the parameters."""
    graph = burn.compile(module, (x,), train=True)
    optimizer = burn.optim.SGD(graph, lr=1.0)
    weights = burn.constant(cotangent(module(x)).numpy())
    step = burn.train.step(
        graph,
        lambda m, x: (m(x).astype("float32") * weights).sum(),
        optimizer,
        precision=plan.precision,
        device=None if DEVICE == "cpu" else DEVICE,
    )
    trained = {name for name, _ in module.named_parameters()}  # without the statistics of batch norms
    before = {name: p.numpy().copy() for name, p in graph.named_parameters() if name in trained}
    loss = step(x.numpy())
    after = {name: p.numpy() for name, p in graph.named_parameters()}
    if step.scale is not None and all(np.array_equal(a, after[name]) for name, a in before.items()):
        return {}  # gradients of float16 overflowed, and the step changed nothing
    found = {"loss": torch.tensor(float(loss))}
    return found | {f"gradient of {name}": torch.from_numpy(a - after[name]) for name, a in before.items()}


def cotangent(out: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(out.shape, generator=generator) / max(1, out.numel()) ** 0.5


def results(module: Network, x: torch.Tensor, run: Any = None) -> Values:
    """The result, and the gradients of the input and the parameters."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    out = module(x) if run is None else run(x)
    found = {"result": out.detach()}
    if out.requires_grad:
        out.backward(cotangent(out).to(out))
    found |= {f"gradient of {n}": p.grad for n, p in [("x", x), *module.named_parameters()] if p.grad is not None}
    return found


# ---- judging ---------------------------------------------------------------------------------------------------------------
def truth(plan: Plan, batch: int | None, noise: Rounding | None = None) -> Values:
    """torch in float64, with noise in every operator if given."""
    module = copy.deepcopy(plan.program.module()).double().train(plan.training)
    x = plan.program.input(batch).double()
    with noise or nullcontext():
        if not plan.training:
            return {"result": inferred(module, x)}
        found = results(module, x)
    if plan.way == "step":
        out = found.pop("result")
        found.pop("gradient of x", None)
        found["loss"] = (out * cotangent(out).double()).sum()
    return found


def judged(plan: Plan, batch: int | None, got: Values) -> str:
    """The first difference that noise does not explain; empty if there is none."""
    wanted = truth(plan, batch)
    if not got or not (text := difference(plan, got, wanted, [])):
        return ""
    for count, scale in JUDGES:
        noises = [Rounding(trial, plan.precision, scale) for trial in range(count)]
        shaken = [truth(plan, batch, noise) for noise in noises]
        if any(noise.overflowed for noise in noises) or not (text := difference(plan, got, wanted, shaken)):
            return ""
    return text


def difference(plan: Plan, got: Values, wanted: Values, shaken: Sequence[Values]) -> str:
    if plan.way == "step":
        wanted = {n: wanted[n] for n in got if n in wanted}
    if set(got) != set(wanted):
        return f"{sorted(got)}, torch has {sorted(wanted)}"
    for name, a in got.items():
        b = wanted[name]
        if a.shape != b.shape:
            return f"{name}: {list(a.shape)}, torch {list(b.shape)}"
        if not b.numel():
            continue
        a = a.double()
        top = torch.where(b.isfinite(), b.abs(), 0).max()
        spread = torch.zeros_like(b)
        for values in shaken:
            spread = torch.maximum(spread, (values[name] - b).abs().nan_to_num(torch.inf))
        near = NEAR[plan.precision]
        # an element's noise is drawn a few times only: the mean of all elements joins it
        allowed = near * (b.abs() + 0.5 * top + 0.01) + SPREADS * spread + 4.0 * spread.mean()
        bad = ~((a - b).abs() <= allowed) & ~(a.isnan() & b.isnan()) & (a != b)
        if bad.any():
            index = tuple(bad.nonzero()[0].tolist())
            return (
                f"{name}: {int(bad.sum())} of {bad.numel()}; at {list(index)} {a[index]:.8g}, torch {b[index]:.8g}, "
                f"allowed {allowed[index]:.2g}"
            )
    return ""
