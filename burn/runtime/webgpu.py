"""WebGPU's library: `library`, the file of wgpu-native that the native runtime opens."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

from burn.variables import variable


def library() -> str | None:
    """BURN_WGPU_LIBRARY, or the file in the installed package `wgpu`; None: a library of the system."""
    return variable("BURN_WGPU_LIBRARY") or _packaged()


@functools.cache
def _packaged() -> str | None:
    """The file that the wheel ships. The package is not imported: it would open the library itself."""
    spec = importlib.util.find_spec("wgpu")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for name in ("libwgpu_native-release.so", "libwgpu_native-release.dylib"):
            if (path := Path(folder) / "resources" / name).exists():
                return str(path)
    return None
