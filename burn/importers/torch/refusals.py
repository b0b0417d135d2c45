"""ATen operators that are refused on purpose, with the reason in the error. An operator without an entry here, a builder or a
decomposition is simply not supported yet."""

from __future__ import annotations

HOST = "its result is a Python value that torch needs while it exports"

REASONS: dict[str, str] = {
    **dict.fromkeys(("equal", "allclose", "is_nonzero"), HOST),
    "sym_storage_offset": "a program has values, which lie nowhere in particular",
    "poisson": "numbers of this distribution are not drawn; sample it outside of the module",
    "binomial": "numbers of this distribution are not drawn; sample it outside of the module",
    "_standard_gamma": "numbers of this distribution are not drawn; sample it outside of the module",
    "resize_": "it changes how much memory a tensor has; use reshape, or pad and slice",
}
"""Operator -> why."""
