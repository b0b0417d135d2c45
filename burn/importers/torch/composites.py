"""Composite operators, which torch looks up in its dispatcher before it decomposes a program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch._export.utils as utils

_find = utils._materialize_cpp_cia_ops
"""Makes an object of each composite operator of all namespaces."""


@contextmanager
def found_once() -> Iterator[None]:
    """The operators are looked up once in here. torch looks up those of all namespaces for each of some 25 namespaces, which
    takes 0.1 s. After it they are looked up anew, because libraries may register others."""
    found = False

    def find() -> None:
        nonlocal found
        if not found:
            _find()
        found = True

    utils._materialize_cpp_cia_ops = find
    try:
        yield
    finally:
        utils._materialize_cpp_cia_ops = _find
