"""One builder function for each op class: `ops.softmax(x, axis=-1)` builds `burn.softmax` at the insertion point.

The functions are made from the classes on first use; names that Python keeps for itself end in an underscore (`and_`).
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any

from burn.dialect.mlir import context
from burn.dialect.op import REGISTRY


def __getattr__(name: str) -> Callable[..., Any]:
    context()
    plain = name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name
    if plain not in REGISTRY:
        raise AttributeError(f"there is no op burn.{plain}")
    builder = REGISTRY[plain].build
    globals()[name] = builder
    return builder
