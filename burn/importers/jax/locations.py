"""Where an equation was written: the user's file and line, and the modules that called it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from jax._src import source_info_util

OWN = f"{Path(__file__).parents[2]}{os.sep}"
_TRANSFORMS = re.compile(r"^(?:jvp|transpose|vmap|jit|pjit|remat|checkpoint|custom_\w+|rematted_computation)\b")


def source_location(eqn: Any) -> tuple[str, int]:
    """The innermost file and line outside of JAX and of burn; ("", 0) if there is none."""
    for frame in source_info_util.user_frames(eqn.source_info.traceback):
        if not frame.file_name.startswith(OWN):
            return frame.file_name, frame.start_line
    return "", 0


def source_line(eqn: Any) -> str:
    """model.py:12"""
    file, line = source_location(eqn)
    return f"{file.rsplit('/', 1)[-1]}:{line}" if file else ""


def module_path(eqn: Any) -> str:
    """encoder.Dense_0: the names of `jax.named_scope` around the call, which Flax and Haiku set to those of modules."""
    parts = str(eqn.source_info.name_stack).split("/")
    return ".".join(part for part in parts if part and not _TRANSFORMS.match(part) and "<" not in part)
