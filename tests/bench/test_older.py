"""benchmarks/older: a library that queries the CPU finds an older one."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SOURCE = """
#include <cpuid.h>
const unsigned char DATA[] __attribute__((used)) = {0x0f, 0xa2};
unsigned avx512(void) { unsigned a, b, c, d; __cpuid_count(7, 0, a, b, c, d); return b >> 16 & 1; }
unsigned avx2(void) { unsigned a, b, c, d; __cpuid_count(7, 0, a, b, c, d); return b >> 5 & 1; }
"""

PROGRAM = """
import ctypes
from pathlib import Path
import older
from older import seen_as
older.COPIED = ("probe",)
with seen_as("avx2"):
    import probe
    library = ctypes.CDLL(str(Path(probe.__file__).with_name("probe.so")))
    print(library.avx512(), library.avx2(), "older" in probe.__file__)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="cpuid is an instruction of x86-64"
)
@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("objdump")), reason="needs a C compiler and binutils")
def test_a_library_finds_no_avx512(tmp_path: Path) -> None:
    package = tmp_path / "site" / "probe"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    source = package / "probe.c"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", package / "probe.so"], check=True)
    path = f"{ROOT / 'benchmarks'}:{ROOT}:{package.parent}"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "BURN_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    hidden, there, _ = done.stdout.split()
    assert (hidden, there) == ("0", str(int(" avx2 " in Path("/proc/cpuinfo").read_text())))
    code = tmp_path / "cache" / "older" / "probe" / "probe.so"
    if code.exists():  # the kernel cannot intercept the instruction
        old, new = (package / "probe.so").read_bytes(), code.read_bytes()
        assert (old.count(b"\x0f\xa2"), new.count(b"\x0f\xa2"), new.count(b"\xce\xa2")) == (3, 1, 2)
