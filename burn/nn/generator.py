"""Where the layers' random numbers come from: the process's generator, which `burn.manual_seed` sets (burn/random.py).

Each draw has a stream of its own: initial weights take numpy's generator for it when they are first wanted (the draw is numbered
when the parameter is made, so that the order of use does not matter), dropout takes it as the key of the dialect's random ops.
"""

from __future__ import annotations

import numpy as np

from burn.errors import TypeMismatch
from burn.importers.trace import active
from burn.random import draw, manual_seed
from burn.tensor import Tensor, from_numpy

__all__ = ["draw", "key", "manual_seed"]


def key(user: str) -> Tensor:
    """A key for the dialect's random ops, uint32[2]. Raises TypeMismatch in a traced function, where it would be a constant and
    every run would see the same numbers."""
    if active() is not None:
        raise TypeMismatch(
            f"{user} in training mode draws random numbers, which a compiled function takes as an input",
            ["call .eval() on the module before it is compiled, or give the layer a `key` (uint32[2]) in its call"],
        )
    return from_numpy(np.random.default_rng(draw()).integers(0, 2**32, 2, np.uint32))
