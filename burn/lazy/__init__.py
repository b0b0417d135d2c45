"""Lazy tensors: what was recorded becomes a program, which is compiled and run. Enter at `evaluate`.

`graph.py` finds the ops behind a value and what makes two such graphs the same, `engine.py` keeps a compiled program for each
and runs it, `explain.py` shows its kernels.
"""

from __future__ import annotations

from burn.lazy.engine import evaluate, statistics
from burn.lazy.explain import Explanation, explain

__all__ = ["Explanation", "evaluate", "explain", "statistics"]
