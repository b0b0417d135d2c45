"""One spoiled checkpoint: every tensor read. Enter at `case`."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import Any

from burn.errors import BurnError
from burn.importers import weights
from tests.fuzz.runner import Outcome
from tests.fuzz.spoiled_weights.mutate import mutate

SECONDS = 120.0
MEMORY = 4 << 30  # bytes of address space: the files take some kilobytes
LARGE = 1 << 28
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "socket.connect",
    "ctypes.dlopen",
    "shutil.rmtree",
)


class Ran(BaseException):
    """A file got something run that no reader of weights does."""


_watching = False


@cache
def _watch() -> None:
    """Sees what the interpreter is asked for from now on."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if _watching and event.startswith(FORBIDDEN):
            raise Ran(f"{event} {arguments!r}")

    sys.addaudithook(hook)


def case(seed: int) -> Outcome:
    global _watching
    _watch()
    with tempfile.TemporaryDirectory() as folder:
        files = mutate(seed)
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        before = sorted(os.listdir(folder))
        _watching = True
        try:
            checkpoint = weights.read(Path(folder, next(iter(files))))
            for weight in checkpoint.values():
                if weight.nbytes <= LARGE:
                    weight.array().tobytes()
            outcome = Outcome("ok", f"{len(checkpoint)} tensors")
        except BurnError as error:
            inside = "internal" in error.summary
            str(error).encode()
            outcome = Outcome("internal" if inside else "refused", str(error))
        except (Exception, Ran):
            outcome = Outcome("exception", traceback.format_exc())
        finally:
            _watching = False
        if sorted(os.listdir(folder)) != before:
            return Outcome("files", f"{sorted(os.listdir(folder))} instead of {before}")
        return outcome
