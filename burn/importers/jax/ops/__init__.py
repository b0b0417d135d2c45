"""Rules of primitives, a file for each family; importing this package enters them into `RULES`."""

from burn.importers.jax.ops import (
    calls,
    complex_linalg,
    complexes,
    contraction,
    control,
    custom,
    householder,
    indexing,
    linalg,
    pointwise,
    random,
    reduction,
    shaping,
    sorting,
    special,
    windows,
)

__all__ = [
    "calls", "complex_linalg", "complexes", "contraction", "control", "custom", "householder", "indexing", "linalg", "pointwise",
    "random", "reduction", "shaping", "sorting", "special", "windows",
]  # fmt: skip
