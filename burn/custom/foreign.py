"""Types of custom ops for other frameworks' symbolic sizes: `inferred`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burn.custom.definition import Version
from burn.dialect import custom
from burn.dialect.dims import Dim, evaluate, symbol
from burn.dialect.types import TensorType


def inferred(
    version: Version,
    operands: Sequence[tuple[str, Sequence[Any]]],
    settings: custom.Settings,
    must: Callable[[Any, Any], None],
) -> list[tuple[str, tuple[Any, ...]]]:
    """Element types and sizes of results, for those of operands. Sizes that are no numbers are another framework's: equal ones
    become one named size, and results get expressions of them. must: called with two sizes that have to be equal."""
    names: dict[str, Any] = {}
    texts: dict[str, str] = {}

    def dim(size: Any) -> Dim:
        if isinstance(size, int):
            return size
        name = texts.setdefault(str(size), f"s{len(texts)}")
        names[name] = size
        return symbol(name)

    types = [TensorType(dtype, tuple(map(dim, shape))) for dtype, shape in operands]
    results = version.infer(types, custom.complete(version, settings))
    for have, want in version.agreements(types):
        must(evaluate(have, names), evaluate(want, names))

    def size_of(size: Dim) -> Any:
        return size if isinstance(size, int) else evaluate(size, names)

    return [(type_.dtype, tuple(map(size_of, type_.shape))) for type_ in results]
