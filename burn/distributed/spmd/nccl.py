"""NCCL's library: where it is, and which version."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from burn.errors import DistributedError, Problem
from burn.runtime import _native
from burn.variables import variable

FILE = "libnccl.so.2"
INSTALL = "pip install nvidia-nccl-cu12 (or -cu13, as the driver's CUDA version)"


def opened() -> int:
    """Opens the library; its version, such as 22703 for 2.27.3. NVLink multicast stays off unless NCCL_NVLS_ENABLE is set. Raises
    DistributedError if there is none, or only one that is too old."""
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    problems = []
    for path in candidates():
        try:
            return _native.nccl_version(path)
        except RuntimeError as error:
            problems.append(Problem(str(error)))
    problems[-1] = Problem(problems[-1].message, hint=INSTALL)
    raise DistributedError("GPUs of a mesh need NCCL", problems)


def candidates() -> Iterator[str]:
    """BURN_NCCL, or the library of the package nvidia-nccl, then the one that the system finds, which torch may have opened."""
    if (named := variable("BURN_NCCL")) is not None:
        yield named
        return
    for folder in _folders("nvidia.nccl"):
        if (path := folder / "lib" / FILE).exists():
            yield str(path)
    for folder in _folders("torch"):
        if (path := folder / "lib" / FILE).exists():
            yield str(path)
    yield FILE


def _folders(package: str) -> list[Path]:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return []
    return [] if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]
