"""Where an equation was written: the user's file and line, and the modules that called it."""

from __future__ import annotations

import re
from typing import Any

from jax._src import source_info_util

_TRANSFORMS = re.compile(r"^(?:jvp|transpose|vmap|jit|pjit|remat|checkpoint|custom_\w+|rematted_computation)\b")


def source_location(eqn: Any) -> tuple[str, int]:
    """The innermost file and line outside of JAX; ("", 0) if there is none."""
    frame = source_info_util.user_frame(eqn.source_info.traceback)
    return ("", 0) if frame is None else (frame.file_name, frame.start_line)


def source_line(eqn: Any) -> str:
    """model.py:12"""
    file, line = source_location(eqn)
    return f"{file.rsplit('/', 1)[-1]}:{line}" if file else ""


def module_path(eqn: Any) -> str:
    """encoder.Dense_0: the names of `jax.named_scope` around the call, which Flax and Haiku set to those of modules."""
    parts = str(eqn.source_info.name_stack).split("/")
    return ".".join(part for part in parts if part and not _TRANSFORMS.match(part) and "<" not in part)
