"""CPU targets of this machine whose code for floats differs."""

from __future__ import annotations

from burn.codegen.cpu.target import host_targets
from burn.runtime.host import features

FLOAT_TARGETS = [target.name for target in host_targets(features()) if target.name not in ("avx512bf16", "vnni")]
"""CPUs with VNNI multiply bytes by their own instructions, and those of avx512bf16 also bfloat16. Else both have the code of
AVX-512 (test_targets.py)."""
