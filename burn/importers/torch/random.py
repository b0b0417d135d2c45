"""Random numbers of imported programs: an input `random_state` that torch's own generator fills at every call.

`torch.manual_seed` makes calls repeat. The numbers are not torch's: they come from threefry (see burn/dialect/random.py).
"""

from __future__ import annotations

import numpy as np
import torch

RANDOM_STATE = "random_state"
"""The input of programs that draw: uint32[2], new for every call."""


def draw_state() -> np.ndarray:
    return torch.randint(-(2**31), 2**31, (2,), dtype=torch.int64).to(torch.int32).numpy().view(np.uint32)
