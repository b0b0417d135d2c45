"""The system's C compiler with a sanitizer, for the C sources alone with a main program of a test's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "burn" / "runtime" / "native"


def compiler_with(sanitizer: str, folder: Path) -> list[str]:
    """The command and its flags. Skips the test where there is no such compiler; `folder` is for a try."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }")
    flags = [compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", f"-fsanitize={sanitizer}", f"-I{NATIVE}"]
    supported = subprocess.run([*flags, str(probe), "-o", str(folder / "probe")], capture_output=True).returncode == 0
    if not supported or subprocess.run([str(folder / "probe")], capture_output=True).returncode != 0:
        pytest.skip(f"the compiler has no {sanitizer} sanitizer that works here")
    return flags
