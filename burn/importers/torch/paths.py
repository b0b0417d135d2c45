"""Names for what a module takes and returns: the keys that lead to every tensor in its containers."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from typing import Any


def output_names(out_spec: Any) -> list[str]:
    """A name for every leaf that a module returns: its keys (logits), "output", or "output_0", "output_1" ..."""
    names = []
    for path in paths_of(out_spec) if out_spec is not None else ():
        name = "_".join(filter(None, map(plain, path)))
        names.append(name if name[:1].isalpha() else "_".join(filter(None, ("output", name))))
    return names


def paths_of(spec: Any) -> Iterator[tuple[str, ...]]:
    """The keys that lead to every leaf. Read off the structure, because containers cannot be made of anything but tensors:
    a container's context is its keys, or begins with them."""
    if spec.is_leaf():
        yield ()
        return
    children = spec.children()
    keys = spec.context
    if not _are_keys(keys, len(children)):
        keys = keys[0] if isinstance(keys, (list, tuple)) and keys and _are_keys(keys[0], len(children)) else None
    for index, child in enumerate(children):
        for path in paths_of(child):
            yield (str(index if keys is None else keys[index]), *path)


def _are_keys(keys: Any, count: int) -> bool:
    return isinstance(keys, (list, tuple)) and len(keys) == count and all(isinstance(k, str) for k in keys)


def plain(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_")


def unique(name: str, taken: set[str]) -> str:
    """A Python name that no other input has, so that it can be used as a keyword."""
    base = plain(name) or "input"
    if keyword.iskeyword(base) or base[0].isdigit():
        base = f"input_{base}"
    result, count = base, 1
    while result in taken:
        count += 1
        result = f"{base}_{count}"
    taken.add(result)
    return result
