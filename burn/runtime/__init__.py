"""Runs what was compiled: artefacts on disk, executables in memory, the native runtime beneath them.

Start at `Executable`. This package is independent of the compiler that makes artefacts.
"""

from typing import TYPE_CHECKING, Any

from burn.runtime.artefact import Artefact
from burn.runtime.cache import Cache
from burn.runtime.executable import Executable

if TYPE_CHECKING:
    from burn.runtime.profile import Profile

__all__ = ["Artefact", "Cache", "Executable", "Profile"]


def __getattr__(name: str) -> Any:
    if name != "Profile":
        raise AttributeError(f"module 'burn.runtime' has no attribute '{name}'")
    from burn.runtime.profile import Profile  # most processes need none

    return Profile
