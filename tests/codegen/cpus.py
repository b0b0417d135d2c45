"""CPU targets of this machine whose code for floats differs."""

from __future__ import annotations

from burn.codegen.cpu.target import host_targets
from burn.runtime.host import features

RUNNABLE = frozenset(target.name for target in host_targets(features()))

_WITHOUT_TILES = [target.name for target in host_targets(features()) if target.name in ("avx512bf16", "vnni", "avx512")]

FLOAT_TARGETS = [target.name for target in host_targets(features()) if target.name not in _WITHOUT_TILES[1:]]
"""One of the CPUs with AVX-512 and without tile registers: the widest. The others have the same code for floats, except for costs
(test_targets.py), and multiply bytes and bfloat16 by other instructions."""
