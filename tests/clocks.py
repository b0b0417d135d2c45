"""Clocks that tests may rely on."""

from __future__ import annotations

from pathlib import Path


def wait_for_tick(folder: Path) -> None:
    """Waits until a change of a file in the folder gets a later time than all changes before. Two changes within one tick of the
    file system's clock, up to 10 milliseconds, have the same time."""
    file = folder / ".tick"
    file.touch()
    before = file.stat().st_ctime_ns
    while file.stat().st_ctime_ns <= before:
        file.touch()
    file.unlink()
