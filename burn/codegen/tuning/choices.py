"""Choices between variants of a decision that are all correct, but differ in speed. A `Choice` returns the heuristics'
default, or a faster variant found on this machine (`search.py`). Code generators only query choices.

A variant is a frozen dataclass of numbers, texts and nested ones: a kernel's blocks, a panel's width.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

Variant = Any
F = TypeVar("F")


@dataclass(frozen=True)
class Choices:
    """picked: variants by key; defaults for missing keys. seen: if given, records all variants of each choice. seed: if
    given, variants are drawn at random, for tests: all must give correct results. queried: if given, records keys by
    source node, for passes that run before there are launches."""

    picked: Mapping[str, Variant] = field(default_factory=dict)
    seen: dict[str, list[Variant]] | None = None
    seed: int | None = None
    queried: dict[str, set[str]] | None = None

    @property
    def are_default(self) -> bool:
        """True if every variant is the default, and nothing records choices."""
        return not self.picked and self.seen is None and self.seed is None and self.queried is None

    def of(self, key: Callable[[], str], node: str = "") -> Choice:
        """The choice for a decision with this key (computed on demand), from a source node."""
        if self.are_default:
            return NO_CHOICE
        made = key()
        if self.queried is not None and node:
            self.queried.setdefault(node, set()).add(made)
        return Choice(self, made)


DEFAULT = Choices()


@dataclass(frozen=True)
class Choice:
    """key: identifies the decision."""

    choices: Choices = DEFAULT
    key: str = ""

    def pick(self, default: F, others: Callable[[], Sequence[F]]) -> F:
        """others: the alternatives, in order of trial."""
        choices = self.choices
        if choices.are_default:
            return default
        if choices.seen is not None or choices.seed is not None:
            variants = list(dict.fromkeys((default, *others())))
            if choices.seen is not None:
                choices.seen[self.key] = variants
            if choices.seed is not None:
                return variants[int(digest(str(choices.seed), self.key), 16) % len(variants)]
        picked = choices.picked.get(self.key)
        return picked if isinstance(picked, type(default)) else default


NO_CHOICE = Choice()


def digest(*texts: str) -> str:
    """A key derived from all these texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]
