"""Optimizers, schedules and gradient clipping.

    optimizer = burn.optim.AdamW(model, lr=burn.optim.cosine(1e-3, total=1000, warmup=100))

    @burn.jit
    def step(x, y):
        loss, grads = burn.value_and_grad(loss_fn)(model, x, y)
        optimizer.update(burn.optim.clip_by_norm(grads, 1.0))
        return loss

An optimizer's state is held in buffers; `update` assigns them and the parameters. In a compiled function, forward pass,
backward pass and update are one program, which overwrites the old elements. Start at `Optimizer` (base.py), which
describes how to write an optimizer; each optimizer cites its paper.
"""

from typing import TYPE_CHECKING

from burn.optim.adam import Adam, AdamW
from burn.optim.adaptive import AdaGrad, RMSProp
from burn.optim.average import EMA, SWA, Averaged
from burn.optim.base import Optimizer
from burn.optim.clip import clip_by_norm, clip_by_value, global_norm
from burn.optim.combined import Combined
from burn.optim.lbfgs import LBFGS
from burn.optim.momentum import SGD, Adan, Lion
from burn.optim.muon import Muon
from burn.optim.schedule import (
    Plateau,
    Schedule,
    constant,
    cosine,
    exponential,
    linear,
    noam,
    one_cycle,
    product,
    sequence,
    step,
)
from burn.suggestions import suggestion

__all__ = [
    "Optimizer", "SGD", "Adam", "AdamW", "AdaGrad", "RMSProp", "Lion", "Adan", "Muon", "LBFGS",
    "Combined", "Averaged", "EMA", "SWA",
    "clip_by_norm", "clip_by_value", "global_norm",
    "Schedule", "constant", "linear", "cosine", "exponential", "step", "noam", "one_cycle", "sequence", "product", "Plateau",
]  # fmt: skip


if not TYPE_CHECKING:  # type checkers report unknown names themselves

    def __getattr__(name: str) -> object:
        raise AttributeError(f"there is no burn.optim.{name}{suggestion('optim', name, __all__)}")
