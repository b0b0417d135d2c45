"""The cache of written models: one folder outside the repository, one file a model and a digest of its inputs."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def folder() -> Path:
    """`$BURN_TEST_MODELS`, or `~/.cache/burn/test-models`."""
    path = Path(os.environ.get("BURN_TEST_MODELS") or Path.home() / ".cache" / "burn" / "test-models")
    path.mkdir(parents=True, exist_ok=True)
    return path


def cached(stem: str, made_from: object, write: Callable[[Path], None], suffix: str = ".onnx") -> Path:
    """The file `stem` made from `made_from`, written first if it is not there.

    Two processes may ask for it at once: one writes it while the other waits, and it appears under its name only when it is
    whole. Files of the same stem made from something else are out of date and go.
    """
    digest = hashlib.sha256(repr(made_from).encode()).hexdigest()[:10]
    path = folder() / f"{stem}.{digest}{suffix}"
    if path.exists():
        return path
    with FileLock(path.parent / f"{stem}.lock"):
        if path.exists():
            return path
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            written = Path(scratch) / f"model{suffix}"
            write(written)
            for stale in path.parent.glob(f"{stem}.*{suffix}"):
                stale.unlink(missing_ok=True)
            written.replace(path)
    return path
