"""Builds the release files: wheels for Linux on x86-64 and AArch64, and the source distribution.

    python release/wheels.py [--machine x86_64] [--machine aarch64] [--output dist]

The native part is compiled by ziglang's clang, for any machine and for a C library as old as `GLIBC`. The wheels are
manylinux ones and need no container. An interpreter makes the wheels for its own ABI. Python 3.12 or newer makes wheels of the
stable ABI, which serve all later versions; 3.10 and 3.11 have an ABI each. The interpreter needs cmake, ninja, ziglang,
auditwheel, wheel and the build requirements of pyproject.toml. Python's headers are those of this interpreter: they are the
same for all little-endian machines with 64-bit words.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRATCH = ROOT / "build" / "wheels"
GLIBC = "2.28"
"""That of torch-mlir's wheels, without which burn does not compile anything."""

MACHINES = ("x86_64", "aarch64")
_TOOLS = {"CC": "cc", "CXX": "c++", "AR": "ar", "RANLIB": "ranlib"}
_COMPILERS = ("CC", "CXX")


def platform_tag(machine: str) -> str:
    return f"manylinux_{GLIBC.replace('.', '_')}_{machine}"


def wheel(machine: str, output: Path) -> Path:
    """Builds the wheel of this interpreter's ABI for a machine. Exits where it needs more of a system than its name will say."""
    tools = _tools(machine)
    settings = {
        "build-dir": str(SCRATCH / "{wheel_tag}"),
        "cmake.define.CMAKE_AR": str(tools["AR"]),
        "cmake.define.CMAKE_RANLIB": str(tools["RANLIB"]),
    }
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX")).replace(platform.machine(), machine)
    environment = {"_PYTHON_HOST_PLATFORM": f"linux-{machine}", "SETUPTOOLS_EXT_SUFFIX": suffix}
    environment |= {name: str(tools[name]) for name in _COMPILERS}
    made = _built("build_wheel", output, settings, environment)
    _check(made, machine)
    tag = platform_tag(machine)
    _run("wheel", "tags", "--remove", "--platform-tag", tag, made)
    return made.with_name(made.name.replace(f"linux_{machine}", tag))


def source_distribution(output: Path) -> Path:
    return _built("build_sdist", output, {}, {})


def _tools(machine: str) -> dict[str, Path]:
    """Programs by the names that CMake takes: one word each, at stable paths, as CMake caches them."""
    folder = SCRATCH / "tools" / machine
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: folder / tool for name, tool in _TOOLS.items()}
    for name, path in found.items():
        target = ["-target", f"{machine}-linux-gnu.{GLIBC}"] if name in _COMPILERS else []
        command = [sys.executable, "-m", "ziglang", _TOOLS[name], *target]
        path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        path.chmod(0o755)
    return found


def _built(hook: str, output: Path, settings: dict[str, str], environment: dict[str, str]) -> Path:
    """The result of a build back end's hook, run in a process of its own, which reads its settings from the environment."""
    output = output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    call = f"import scikit_build_core.build as b; b.{hook}({str(output)!r}, config_settings={settings!r})"
    before = {path: path.stat().st_mtime_ns for path in output.iterdir()}
    subprocess.run([sys.executable, "-c", call], cwd=ROOT, env={**os.environ, **environment}, check=True)
    (made,) = [path for path in output.iterdir() if before.get(path) != path.stat().st_mtime_ns]
    return made


def _check(path: Path, machine: str) -> None:
    """Exits where a wheel needs a newer C library than `GLIBC`, or libraries that not every system has."""
    told = _run("auditwheel", "show", path)
    found = re.search(
        rf'consistent\s+with\s+the\s+following\s+platform\s+tag:\s+"manylinux_(\d+)_(\d+)_{machine}"', told
    )
    if not found or [int(part) for part in found.groups()] > [int(part) for part in GLIBC.split(".")]:
        sys.exit(f"{path.name} is not {platform_tag(machine)}:\n{told}")


def _run(module: str, *words: str | Path) -> str:
    """Runs a tool that is a module of this interpreter; gives what it says."""
    done = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{module} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes wheels and the source distribution.")
    parser.add_argument("--machine", action="append", choices=MACHINES, help="all of them by default")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    told = parser.parse_args()
    made = [wheel(machine, told.output) for machine in told.machine or MACHINES]
    made.append(source_distribution(told.output))
    for path in made:
        print(f"{path.stat().st_size:>10,} bytes  {path}")


if __name__ == "__main__":
    main()
