"""A cache of recently compiled objects by their source text.

Constants are not part of the LLVM text. So a model with other weights often has a text that was compiled before. LLVM
takes most of a compilation's time.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable


def digest(texts: Iterable[str]) -> bytes:
    """The key of a module with these functions. They are not joined, because a network's have megabytes."""
    made = hashlib.sha256()
    for text in texts:
        made.update(text.encode() + b"\n")
    return made.digest()


class Recent:
    """A cache of at most `limit` bytes of objects, which evicts the least recently used."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._objects: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: bytes, make: Callable[[], bytes]) -> bytes:
        """The object of a key (`digest`), compiled if it is not cached. Compilation runs outside of the lock, in each requesting
        thread."""
        with self._lock:
            if key in self._objects:
                self._objects.move_to_end(key)
                return self._objects[key]
        made = make()
        with self._lock:
            if key not in self._objects and len(made) <= self.limit:
                self._objects[key] = made
                self.bytes += len(made)
            while self.bytes > self.limit:
                self.bytes -= len(self._objects.popitem(last=False)[1])
        return made
