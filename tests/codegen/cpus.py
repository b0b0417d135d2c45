"""CPU targets of this machine whose code for floats differs."""

from __future__ import annotations

from burn.codegen.cpu.target import host_targets
from burn.runtime.host import features

FLOAT_TARGETS = [target.name for target in host_targets(features()) if target.name != "vnni"]
"""A CPU with VNNI multiplies bytes by instructions of its own; else it is one with AVX-512 (test_targets.py)."""
