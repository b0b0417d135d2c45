"""Shared libraries of custom ops in this process: `open_all`. Programs find their functions by symbol (symbols.c)."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable

from burn.runtime import _native
from burn.runtime.artefact import Library

_open: dict[str, ctypes.CDLL] = {}
_lock = threading.Lock()


def open_all(libraries: Iterable[Library]) -> None:
    """Opens libraries that are not open yet. They stay open, as programs and threads may call them. A symbol has the digest of
    its function in it, so equal symbols are equal functions. Raises ValueError for one that the system does not open."""
    with _lock:
        for library in libraries:
            if library.symbol in _open:
                continue
            file = os.memfd_create(library.symbol)  # it stays open: equal paths give one library
            with os.fdopen(file, "wb", closefd=False) as target:
                target.write(library.data)
            try:
                opened = ctypes.CDLL(f"/proc/self/fd/{file}")
                address = ctypes.cast(getattr(opened, library.symbol), ctypes.c_void_p).value
            except (OSError, AttributeError) as error:
                os.close(file)
                raise ValueError(f"the function of {library.op} cannot be opened: {error}") from error
            assert address is not None
            _native.add_symbol(library.symbol, address)
            _open[library.symbol] = opened
