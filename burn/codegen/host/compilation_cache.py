"""A cache of recently compiled objects by their source text.

Constants are not part of the LLVM text. So a model with other weights often has a text that was compiled before. LLVM
takes most of a compilation's time.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable


class Recent:
    """A cache of at most `limit` bytes of objects, which evicts the least recently used."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._objects: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, text: str, make: Callable[[str], bytes]) -> bytes:
        """The text's object, compiled if it is not cached. Compilation runs outside of the lock, in each requesting
        thread."""
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
