"""Random numbers of imported programs: their random state comes of torch's own generator at every call.

`torch.manual_seed` makes calls repeat. The numbers are not torch's: they come from threefry (see burn/dialect/random.py).
"""

from __future__ import annotations

import torch


def draw_state() -> tuple[int, int]:
    """A seed and the number of a call, as `Executable.draw_from` takes them."""
    high, low, number = torch.randint(2**32, (3,), dtype=torch.int64).tolist()
    return high << 32 | low, number
