"""Random trainings beside PyTorch in float64. Enter at `case`.

A training has a small model (with a shared parameter, a layer that the loss does not use) and a loss (means over targets with
ignored ones, sums, penalties). It has an optimizer with groups and a schedule, clipping, parts, a memory limit, a precision.
Between its steps parameters are frozen and unfrozen, and batches have two sizes.
"""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import burn
from burn import nn, optim
from tests.fuzz.gradients.noise import Rounding
from tests.fuzz.runner import Outcome

STEPS = int(os.environ.get("BURN_SWEEP_STEPS", "20"))
"""Of a training in float64; one in float32 has 20, as its error grows."""
D, H, C = 3, 4, 3
PATTERNS = ("first", "bias", "head.weight", "square", "unused")


class Net(nn.Module):
    """Two uses of one square weight between two linear layers, and a layer that nothing uses."""

    def __init__(self, normed: bool, shared: bool) -> None:
        self.first, self.square, self.head = nn.Linear(D, H), nn.Linear(H, H), nn.Linear(H, C)
        self.norm = nn.LayerNorm(H) if normed else nn.Identity()
        self.again = nn.Linear(H, H)
        if shared:
            self.again.weight = self.square.weight
        self.unused = nn.Linear(H, H)

    def forward(self, x: Any) -> Any:
        h = burn.tanh(self.first(x))
        h = burn.tanh(self.again(burn.tanh(self.square(self.norm(h)))))
        return self.head(h)


def _theirs(p: dict[str, torch.Tensor], x: torch.Tensor, shared: bool) -> torch.Tensor:
    h = torch.tanh(F.linear(x, p["first.weight"], p["first.bias"]))
    if "norm.weight" in p:
        h = F.layer_norm(h, (H,), p["norm.weight"], p["norm.bias"])
    h = torch.tanh(F.linear(h, p["square.weight"], p["square.bias"]))
    again = p["square.weight" if shared else "again.weight"]
    return F.linear(torch.tanh(F.linear(h, again, p["again.bias"])), p["head.weight"], p["head.bias"])


# ---- losses: (ours, theirs) of (scores, targets, parameters by path) --------------------------------------------------------
def _classes(rng: random.Random) -> tuple[Any, Any]:
    weight = [rng.uniform(0.2, 2.0) for _ in range(C)] if rng.random() < 0.5 else None
    smoothing = rng.choice((0.0, 0.0, 0.2))
    reduction = rng.choice(("mean", "mean", "mean", "sum"))
    theirs = None if weight is None else torch.tensor(weight, dtype=torch.float64)
    array = None if weight is None else np.array(weight)
    loss = nn.CrossEntropyLoss(weight=array, label_smoothing=smoothing, reduction=reduction)  # type: ignore[arg-type]
    scale = 0.1 if reduction == "sum" else 1.0
    return (
        lambda s, y, p: loss(s, y) * scale,
        lambda s, y, p: F.cross_entropy(s, y, theirs, label_smoothing=smoothing, reduction=reduction) * scale,
    )


def _squares(rng: random.Random) -> tuple[Any, Any]:
    loss = nn.MSELoss()
    return lambda s, y, p: loss(s, s * 0.0 + 0.5), lambda s, y, p: F.mse_loss(s, s * 0.0 + 0.5)


def _rows(rng: random.Random) -> tuple[Any, Any]:
    return lambda s, y, p: (s.sum(1) ** 2).mean() * 0.1, lambda s, y, p: (s.sum(1) ** 2).mean() * 0.1


def _penalty(rng: random.Random) -> tuple[Any, Any]:
    return lambda s, y, p: (p["head.weight"] ** 2).sum() * 0.1, lambda s, y, p: (p["head.weight"] ** 2).sum() * 0.1


TERMS = (_classes, _classes, _squares, _rows, _penalty)


# ---- optimizers: (ours, theirs, the options that they share) ----------------------------------------------------------------
def _options(rng: random.Random, name: str, eps: float) -> dict[str, Any]:
    decay = rng.choice((0.0, 0.1))
    momentum = rng.choice((0.0, 0.9))
    table: dict[str, dict[str, Any]] = {
        "SGD": {"momentum": momentum, "nesterov": momentum > 0 and rng.random() < 0.5},
        "Adam": {"betas": (0.8, 0.95), "eps": eps, "amsgrad": rng.random() < 0.5},
        "AdamW": {"betas": (0.8, 0.95), "eps": eps, "amsgrad": rng.random() < 0.5},
        "AdaGrad": {"lr_decay": rng.choice((0.0, 0.1)), "eps": eps},
        "RMSProp": {"alpha": 0.9, "eps": eps, "momentum": momentum, "centered": rng.random() < 0.3},
    }
    options = table[name]
    if name == "SGD" and momentum and not options["nesterov"]:
        options["dampening"] = rng.choice((0.0, 0.3))
    return {**options, "weight_decay": decay}


THEIRS = {"SGD": "SGD", "Adam": "Adam", "AdamW": "AdamW", "AdaGrad": "Adagrad", "RMSProp": "RMSprop"}


def _cosine(lr: float, n: int) -> float:
    return lr * 0.5 * (1 + math.cos(math.pi * min(n, 10) / 10))


SCHEDULES: dict[str, tuple[Callable[[float], Any], Callable[[float, int], float]]] = {
    "constant": (lambda lr: lr, lambda lr, n: lr),
    "cosine": (lambda lr: optim.cosine(lr, 10), _cosine),
    "exponential": (lambda lr: optim.exponential(lr, 0.9), lambda lr, n: lr * 0.9**n),
}


@dataclass
class Training:
    """One draw."""

    seed: int
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        self.dtype = rng.choice(("float64", "float64", "float64", "float32"))
        self.precision = (
            "float32" if self.dtype == "float64" else rng.choice(("float32", "float32", "bfloat16", "float16"))
        )
        self.normed, self.shared = rng.random() < 0.5, rng.random() < 0.5
        self.optimizer, self.schedule = rng.choice(list(THEIRS)), rng.choice(list(SCHEDULES))
        self.lr = rng.choice((0.01, 0.05))
        self.options = _options(rng, self.optimizer, 1e-8 if self.dtype == "float64" else 1e-3)
        self.groups = rng.choice(
            ((), (), (("bias", {"weight_decay": 0.0}),), (("head", {"lr": 0.02}), ("bias", {"weight_decay": 0.05})))
        )
        self.parts = rng.choice((1, 1, 1, 1, 2, 3, 4))
        self.memory = "1 GB" if self.parts == 1 and rng.random() < 0.3 else None
        self.norm = rng.choice((None, None, 0.05, 1.0))
        self.value = rng.choice((None, None, 0.02))
        self.terms = [rng.choice(TERMS)(rng) for _ in range(rng.choice((1, 1, 2, 3)))]

    def __str__(self) -> str:
        names = (
            "dtype",
            "precision",
            "optimizer",
            "schedule",
            "options",
            "groups",
            "parts",
            "memory",
            "norm",
            "value",
            "shared",
        )
        return ", ".join(f"{n}={getattr(self, n)}" for n in names)


@dataclass(frozen=True)
class Step:
    """The inputs of a step, and the actions before it. frozen: a pattern of paths ("" for none), None for as before."""

    frozen: str | None
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class After:
    """The state after a step. idle: the paths of parameters without a gradient. skipped: scaled float16 gradients overflowed, and
    the step changed no parameter."""

    loss: float
    parameters: dict[str, np.ndarray]
    idle: frozenset[str]
    skipped: bool = False


def steps_of(t: Training) -> list[Step]:
    numbers = np.random.default_rng(t.seed)
    # Each size of a batch and each set of frozen parameters is a program, and compiling it takes most of a training's time.
    sizes = [t.rng.randint(1, 13) for _ in range(t.rng.choice((1, 1, 2)))]
    pattern = t.rng.choice(PATTERNS)
    freezes = t.rng.random() < 0.4
    found = []
    for _ in range(STEPS if t.dtype == "float64" else 20):
        frozen = None
        if freezes and t.rng.random() < 0.3:
            frozen = pattern if t.rng.random() < 0.6 else ""
        rows = t.rng.choice(sizes)
        x = numbers.standard_normal((rows, D)).astype(t.dtype)
        y = numbers.integers(0, C, rows)
        y[1:][numbers.random(rows - 1) < t.rng.choice((0.0, 0.3, 0.7))] = -100
        found.append(Step(frozen, x, y))
    return found


def ours(t: Training, model: Net, steps: Sequence[Step]) -> Iterator[After]:
    """burn's training."""
    terms = [a for a, _ in t.terms]

    def loss(m: Any, x: Any, y: Any) -> Any:
        scores, parameters = m(x), dict(m.named_parameters())
        return sum((term(scores, y, parameters) for term in terms[1:]), terms[0](scores, y, parameters))

    make, _ = SCHEDULES[t.schedule]
    optimizer = getattr(optim, t.optimizer)(model, lr=make(t.lr), groups=t.groups, **t.options)
    step = burn.train.step(
        model,
        loss,
        optimizer,
        clip_norm=t.norm,
        clip_value=t.value,
        accumulate=t.parts,
        precision=t.precision,
        memory=t.memory,
    )
    for s in steps:
        if s.frozen is not None:
            model.unfreeze()
            if s.frozen:
                model.freeze(s.frozen)
        before, factor = model.state_dict(), _factor(step)
        value = float(step(s.x, s.y))
        after = model.state_dict()
        idle = frozenset(p for p in after if np.array_equal(before[p], after[p]))
        yield After(value, after, idle, _factor(step) < factor)


def _factor(step: Any) -> float:
    """float16's loss scale."""
    return 0.0 if step.scale is None else step.scale.factor.item()


def theirs(
    t: Training,
    start: dict[str, np.ndarray],
    steps: Sequence[Step],
    skipped: Collection[int],
    rounding: Rounding | None = None,
) -> Iterator[After]:
    """PyTorch's training, from the same parameters, in float64. skipped: steps that change nothing, as `torch.amp.GradScaler`
    skips them. rounding: of the ops that compute gradients."""
    twins = {path: torch.tensor(a, dtype=torch.float64) for path, a in start.items()}
    grouped = [[path for path in twins if _group(t.groups, path) == i] for i in range(len(t.groups) + 1)]
    table = [{"lr": t.lr, **dict(own)} for _, own in t.groups] + [{"lr": t.lr}]
    options = {k: v for k, v in t.options.items() if k != "weight_decay"}
    twin = getattr(torch.optim, THEIRS[t.optimizer])(
        [
            {"params": [twins[path] for path in paths], "weight_decay": t.options["weight_decay"], **own}
            for paths, own in zip(grouped, table, strict=True)
            if paths
        ],
        lr=t.lr,
        **options,
    )
    _, rate = SCHEDULES[t.schedule]
    fixed = ["lr" in own for (_, own), paths in zip(t.groups, grouped, strict=False) if paths] + [False]
    frozen, done = "", 0
    for n, s in enumerate(steps):
        frozen = frozen if s.frozen is None else s.frozen
        for path, p in twins.items():
            p.requires_grad_(not (frozen and re.search(frozen, path)))
            p.grad = None
        for group, own in zip(twin.param_groups, fixed, strict=False):
            if not own:
                group["lr"] = rate(t.lr, done)
        with rounding or nullcontext():
            scores = _theirs(twins, torch.tensor(s.x, dtype=torch.float64), t.shared)
            want: Any = sum(term(scores, torch.tensor(s.y), twins) for _, term in t.terms)
            if want.requires_grad:  # something that is used is not frozen
                want.backward()
        moved = [p for p in twins.values() if p.grad is not None]
        if moved and t.value is not None:
            torch.nn.utils.clip_grad_value_(moved, t.value)
        if moved and t.norm is not None:
            torch.nn.utils.clip_grad_norm_(moved, t.norm)
        idle = frozenset(path for path, p in twins.items() if p.grad is None)
        if n in skipped:
            idle = frozenset(twins)
        else:
            twin.step()
            done += 1
        yield After(want.item(), {path: p.detach().numpy().copy() for path, p in twins.items()}, idle)


MOST_SKIPPED = 4
"""Steps of a training that may overflow: each divides the loss scale by two, which is 2^15 at first."""
TRIALS, SPREADS = 8, 3.0
"""Trainings with noise, and how many times as far as they differ from the exact one burn's may."""


def case(seed: int) -> Outcome:
    """Compares a training with PyTorch's, step by step, within a tolerance.

    A larger difference is accepted if the rounding of its precision causes it in PyTorch: optimizers divide gradients by their
    size, however small they are."""
    t = Training(seed)
    torch.set_num_threads(1)
    burn.manual_seed(seed)
    model = Net(t.normed, t.shared)
    if t.dtype == "float64":
        model.to("float64")
    start = {path: p.numpy() for path, p in model.named_parameters()}
    steps = steps_of(t)
    plain = t.precision == "float32"
    tolerance = {"float64": 1e-8, "float32": 2e-3}[t.dtype] if plain else 6e-2
    found, shaken = list(ours(t, model, steps)), None
    skipped = [n for n, got in enumerate(found) if got.skipped]
    if len(skipped) > MOST_SKIPPED:
        return Outcome("wrong", f"{len(skipped)} steps overflowed ({t})")
    exact = list(theirs(t, start, steps, skipped))
    for n, got in enumerate(found):
        want = exact[n]
        for path in want.idle - got.idle:
            return Outcome("wrong", f"step {n}: '{path}' has no gradient and moved ({t})")
        pairs = [("loss", np.array(got.loss), np.array(want.loss))]
        pairs += [(path, got.parameters[path], p) for path, p in want.parameters.items() if plain]
        for name, a, b in pairs:
            if np.allclose(a, b, rtol=tolerance, atol=tolerance):
                continue
            shaken = shaken or _shaken(t, start, steps, skipped)
            others = [np.array(r[n].loss) if name == "loss" else r[n].parameters[name] for r in shaken]
            spread = np.max([np.abs(o - b) for o in others], axis=0)
            if (np.abs(a - b) > tolerance * np.maximum(1.0, np.abs(b)) + SPREADS * spread).any():
                text = f"{a} instead of {b}" if name == "loss" else f"differs by {np.abs(a - b).max()}"
                return Outcome(
                    "wrong", f"step {n}: {name} {text}, rounding {spread.max()} ({len(steps[n].y)} rows; {t})"
                )
    return Outcome("ok")


def _shaken(
    t: Training, start: dict[str, np.ndarray], steps: Sequence[Step], skipped: Collection[int]
) -> list[list[After]]:
    unit = t.dtype if t.precision == "float32" else t.precision
    return [list(theirs(t, start, steps, skipped, Rounding(trial, unit))) for trial in range(TRIALS)]


def _group(groups: Any, path: str) -> int:
    return next((i for i, (pattern, _) in enumerate(groups) if re.search(pattern, path)), len(groups))
