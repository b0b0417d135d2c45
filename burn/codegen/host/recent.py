"""Objects that were compiled lately, by what they were compiled from.

Constants are no part of the text that LLVM is given, so a model with other weights, or weights of a known shape that are laid out
anew, often come with a text that has been compiled before; and LLVM takes most of a compilation's time.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable


class Recent:
    """At most so many bytes of objects; the least recently used go first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._objects: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, text: str, make: Callable[[str], bytes]) -> bytes:
        """The text's object, made if it is not at hand: outside of the lock, by each thread that asks meanwhile."""
        key = hashlib.sha256(text.encode()).digest()
        with self._lock:
            if key in self._objects:
                self._objects.move_to_end(key)
                return self._objects[key]
        made = make(text)
        with self._lock:
            if key not in self._objects and len(made) <= self.limit:
                self._objects[key] = made
                self.bytes += len(made)
            while self.bytes > self.limit:
                self.bytes -= len(self._objects.popitem(last=False)[1])
        return made
