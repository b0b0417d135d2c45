"""States of random generators as plain values for a checkpoint: burn's own, and those that often shuffle data: Python's,
numpy's and PyTorch's (if it is imported)."""

from __future__ import annotations

import base64
import random
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from burn.errors import ModelError
from burn.runtime.random import process


def own() -> list[int]:
    """Where burn's generator is."""
    return list(process.position)


def go_to(state: Any) -> None:
    """Sets burn's generator. Raises ModelError for an invalid state."""
    if not (isinstance(state, list) and len(state) == 2 and all(type(n) is int and 0 <= n < 2**64 for n in state)):
        raise ModelError("this is no state of random numbers", [repr(state)[:80]])
    process.go_to((state[0], state[1]))


def others() -> dict[str, Any]:
    """Where the other libraries' generators are."""
    version, words, gauss = random.getstate()
    legacy: Any = np.random.get_state(legacy=False)  # noqa: NPY002  # what data is shuffled with is not ours to choose
    state = legacy["state"]
    found: dict[str, Any] = {
        "python": [version, _text(np.array(words, np.uint32)), gauss],
        "numpy": [_text(state["key"]), int(state["pos"]), int(legacy["has_gauss"]), float(legacy["gauss"])],
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = _text(torch.get_rng_state().numpy())
    return found


def set_others(states: Mapping[str, Any]) -> None:
    """Sets them to what `others` gave. Raises ModelError for what is no state."""
    try:
        version, words, gauss = states["python"]
        random.setstate((version, tuple(map(int, _array(words, np.uint32))), gauss))
        key, state, has_gauss, cached = states["numpy"]
        np.random.set_state(("MT19937", _array(key, np.uint32), state, has_gauss, cached))  # noqa: NPY002
        torch = sys.modules.get("torch")
        if torch is not None and "torch" in states:
            torch.set_rng_state(torch.from_numpy(_array(states["torch"], np.uint8)))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelError("this is no state of random numbers", [f"{type(error).__name__}: {error}"]) from None


def _text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _array(text: str, dtype: Any) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype).copy()
