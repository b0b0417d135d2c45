"""Counts of changes of parameters, by which a call of a compiled function sees at once that none has changed.

A program with hundreds of parameters is right for their present types, devices and `trainable`, or for their present elements.
Looking at each of them takes longer than a small program runs.
"""

from __future__ import annotations


class Changes:
    """kinds: changes of any parameter's element type, device or `trainable`; elements: assignments of elements, besides."""

    __slots__ = ("elements", "kinds")

    def __init__(self) -> None:
        self.kinds = self.elements = 0


changes = Changes()


class Verified:
    """The counts up to which a program is known to be right for its parameters and their device."""

    __slots__ = ("_elements", "_kinds")

    def __init__(self) -> None:
        self._kinds = self._elements = -1

    def until(self, kinds: int, elements: int) -> None:
        """Sets the counts, which were read before the parameters were looked at."""
        self._kinds, self._elements = kinds, elements

    def holds(self, opened: bool) -> bool:
        """True if nothing has changed since. opened: elements do not count, because they are inputs."""
        return self._kinds == changes.kinds and (opened or self._elements == changes.elements)
