"""Which of several forms something of a program gets, where each is right and none is fastest everywhere: the one that the
heuristics name, or one that was found faster on this machine (`search.py`). Whoever decides asks a `Choice`, and knows no more
of it.

A form is a frozen dataclass of numbers, texts and further ones of that kind: a kernel's blocks, a panel's width.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

Form = Any
F = TypeVar("F")


@dataclass(frozen=True)
class Choices:
    """picked: forms by the keys of what has them; the usual ones where there is none. seen: where it is given, all that each may
    have is noted there. seed: where it is given, forms are drawn by it, each as likely as the others, and whatever is picked: for
    tests, as all must give right results. asked: where it is given, keys are noted there by the source nodes that they are asked
    for, by passes, before there are launches."""

    picked: Mapping[str, Form] = field(default_factory=dict)
    seen: dict[str, list[Form]] | None = None
    seed: int | None = None
    asked: dict[str, set[str]] | None = None

    @property
    def are_usual(self) -> bool:
        """Whether every form is the usual one, and nobody asks which ones there are."""
        return not self.picked and self.seen is None and self.seed is None and self.asked is None

    def of(self, key: Callable[[], str], node: str = "") -> Choice:
        """The choice for something that is known by a key, which takes time to make, and comes from a source node."""
        if self.are_usual:
            return NO_CHOICE
        made = key()
        if self.asked is not None and node:
            self.asked.setdefault(node, set()).add(made)
        return Choice(self, made)


USUAL = Choices()


@dataclass(frozen=True)
class Choice:
    """key: what the thing is known by where that matters."""

    choices: Choices = USUAL
    key: str = ""

    def pick(self, usual: F, others: Callable[[], Sequence[F]]) -> F:
        """others: what else there may be, in the order in which it is tried."""
        choices = self.choices
        if choices.are_usual:
            return usual
        if choices.seen is not None or choices.seed is not None:
            forms = list(dict.fromkeys((usual, *others())))
            if choices.seen is not None:
                choices.seen[self.key] = forms
            if choices.seed is not None:
                return forms[int(digest(str(choices.seed), self.key), 16) % len(forms)]
        picked = choices.picked.get(self.key)
        return picked if isinstance(picked, type(usual)) else usual


NO_CHOICE = Choice()


def digest(*texts: str) -> str:
    """A key, of all that it stands for."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]
