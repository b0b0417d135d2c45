"""An AArch64 machine's files, for qemu-user: Debian's Python and its libraries, and what burn depends on.

    python -m tests.release.sysroot [FOLDER]

fills a folder (build/aarch64 by default, about 500 MB) without touching this system: apt, with a state of its own, finds and
downloads Debian's packages for arm64, pip the wheels. Needs Debian, qemu-user and a network. Tests look for the folder there, or
where the environment's BURN_AARCH64 says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("BURN_AARCH64", ROOT / "build" / "aarch64"))
PACKAGES = ("python3", "libstdc++6")
QEMU = "qemu-aarch64"
_GLIBCS = range(17, 40)
_APT = """
APT::Architecture "arm64";
APT::Architectures "arm64";
APT::Install-Recommends "false";
APT::Keep-Downloaded-Packages "true";
Dir::State "{0}/state";
Dir::State::status "{0}/state/status";
Dir::Cache "{0}/cache";
"""


def python(folder: Path = FOLDER) -> list[str]:
    """The command that runs the folder's Python."""
    return [QEMU, "-L", str(folder), str(folder / "usr" / "bin" / "python3")]


def missing(folder: Path = FOLDER) -> str | None:
    """Why nothing can be run there; None where it can."""
    if shutil.which(QEMU) is None:
        return f"{QEMU} is not here"
    if not (folder / "site").is_dir():
        return f"{folder} has no AArch64 Python: python -m tests.release.sysroot makes one"
    return None


def make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        for path in _debian(Path(scratch)):
            subprocess.run(["dpkg-deb", "-x", path, folder], check=True)
    told = [*python(folder), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = subprocess.run(told, check=True, capture_output=True, text=True).stdout.strip()
    with TemporaryDirectory() as scratch:
        _dependencies(version, Path(scratch))
        for path in Path(scratch).glob("*.whl"):
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(folder / "site")


def _debian(scratch: Path) -> list[Path]:
    """Debian's packages and all that they need, downloaded."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True)
    (scratch / "state" / "status").touch()
    (scratch / "apt.conf").write_text(_APT.format(scratch))
    for words in (["update"], ["install", "--yes", "--download-only", *PACKAGES]):
        subprocess.run(
            ["apt-get", "-qq", *words], env={**os.environ, "APT_CONFIG": str(scratch / "apt.conf")}, check=True
        )
    return sorted((scratch / "cache" / "archives").glob("*.deb"))


def _dependencies(version: str, folder: Path) -> None:
    needed: Sequence[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    tag = version.replace(".", "")
    told = ["--only-binary=:all:", "--implementation", "cp", "--python-version", tag]
    for abi in (f"cp{tag}", "abi3", "none"):
        told += ["--abi", abi]
    for platform in (*(f"manylinux_2_{glibc}_aarch64" for glibc in _GLIBCS), "manylinux2014_aarch64"):
        told += ["--platform", platform]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, *told, "--dest", str(folder), *needed], check=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
