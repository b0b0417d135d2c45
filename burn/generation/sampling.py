"""Choice of a token from scores: greedy or sampled.

`Form` holds the options that determine the program; the others are numeric inputs, so another temperature needs no compilation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import burn.random
from burn.errors import TypeMismatch
from burn.tensors import Tensor
from burn.tensors.concatenation import where


@dataclass(frozen=True)
class Form:
    """Of a choice, what its program depends on."""

    draws: bool
    top_k: int | None
    nucleus: bool


@dataclass(frozen=True)
class Sampling:
    """Options of the choice. `temperature`: divisor of scores; 0 takes the likeliest token. `top_k`: restricts the choice to the
    k likeliest tokens (and ties with the last of them). `top_p`: restricts it to the smallest set of likeliest tokens with this
    total probability (nucleus sampling, arXiv:1904.09751), after top_k.

    Raises TypeMismatch, which lists all invalid numbers."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        problems = []
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            problems.append(f"temperature is a number from 0 on, not {self.temperature}")
        if self.top_k is not None and (not isinstance(self.top_k, int) or self.top_k < 1):
            problems.append(f"top_k is a whole number from 1 on, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            problems.append(f"top_p is above 0 and at most 1, not {self.top_p}")
        if not problems and self.temperature == 0 and (self.top_k, self.top_p) != (None, None):
            problems.append("top_k and top_p are for drawing: say a temperature, such as 1.0")
        if problems:
            raise TypeMismatch("no token can be chosen so", problems)

    @property
    def form(self) -> Form:
        return Form(self.temperature > 0, self.top_k, self.top_p is not None)


NOTHING = -1
"""In place of a token, where there is none to choose."""


def choose(scores: Tensor, form: Form, temperature: Tensor, top_p: Tensor, key: Tensor) -> Tensor:
    """A token for each row; NOTHING where no token has a score above -inf, or one has NaN. Shapes: scores [b, words], temperature
    and top_p [], key uint32[2] -> int64[b].

    Drawn by the largest of scores with Gumbel's noise, which is a draw by their softmax."""
    chosen = _chosen(scores, form, temperature, top_p, key)
    return where(scores.max(-1) > -math.inf, chosen, NOTHING)  # the largest of NaN and others is NaN


def _chosen(scores: Tensor, form: Form, temperature: Tensor, top_p: Tensor, key: Tensor) -> Tensor:
    if not form.draws:
        return scores.argmax(-1)
    scores = scores.astype("float32") / temperature
    if form.top_k is not None:
        scores = _above(scores, scores.topk(_at_most(form.top_k, scores), -1).values.min(-1, keepdims=True))
    if form.nucleus:
        ordered = scores.sort(-1, descending=True)
        likely = ordered.softmax(-1)
        before = likely.cumsum(-1) - likely  # 0 for the likeliest, which is always among them
        scores = _above(scores, where(before < top_p, ordered, math.inf).min(-1, keepdims=True))
    return (scores + burn.random.gumbel(scores.shape, key=key)).argmax(-1)


def _at_most(count: int, scores: Tensor) -> int:
    words = scores.shape[-1]
    return min(count, words) if isinstance(words, int) else count


def _above(scores: Tensor, least: Tensor) -> Tensor:
    """The scores from a least one on; the others can no longer be drawn."""
    return where(scores >= least, scores, -math.inf)
