"""Runs what was compiled: artefacts on disk, executables in memory, the native runtime beneath them.

Start at `Executable`. This package is independent of the compiler that makes artefacts.
"""

from burn.runtime.artefact import Artefact
from burn.runtime.cache import Cache
from burn.runtime.executable import Executable

__all__ = ["Artefact", "Cache", "Executable"]
