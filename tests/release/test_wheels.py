"""Release files: wheels that need no compiler, on this machine and on AArch64, and a source distribution that builds."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from burn.deploy.build import build
from burn.deploy.options import Options
from burn.toolchain import platforms
from release import wheels
from tests.deploy.making import DIGITS, digits
from tests.e2e.test_models import assert_close
from tests.models import MODELS, Unavailable, model_path, random_inputs
from tests.release import sysroot

for package in ("auditwheel", "ninja", "scikit_build_core", "wheel", "ziglang"):
    pytest.importorskip(package)
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
EXAMPLE = wheels.ROOT / "examples" / "digits"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dist")


def wheel(machine: str, output: Path) -> Path:
    """Compiled in build/wheels, where what has not changed is kept."""
    made = wheels.wheel(machine, output)
    assert made.is_file()
    assert made.name.endswith(f"-{wheels.platform_tag(machine)}.whl")
    with zipfile.ZipFile(made) as archive:
        native = [name for name in archive.namelist() if name.endswith(".so")]
        assert len(native) == 1
        assert (
            archive.read(native[0])[18:20] == {"x86_64": b"\x3e\0", "aarch64": b"\xb7\0"}[machine]
        )  # of an ELF header
    return made


def dependencies(name: str, found: set[str]) -> set[str]:
    """All that a distribution says it needs, and what those need, without extras."""
    for requirement in importlib.metadata.requires(name) or ():
        needed = re.match(r"[\w.-]+", requirement)
        assert needed is not None
        key = re.sub(r"[-_.]+", "-", needed[0]).lower()
        marker = requirement.partition(";")[2]
        if "extra" in marker or key in found:
            continue
        try:
            importlib.metadata.version(key)
        except importlib.metadata.PackageNotFoundError:
            assert marker, f"{key} is not installed"
            continue
        found.add(key)
        dependencies(key, found)
    return found


def clean_environment(folder: Path, made: Path) -> Path:
    """A Python with the wheel and what it says that it needs, taken from here; nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in dependencies("burn-mlir", set()):
        distribution = importlib.metadata.distribution(name)
        for top in {Path(str(file)).parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            source = Path(str(distribution.locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--disable-pip-version-check", made], check=True)
    return python


def run(python: Path, words: Sequence[str | Path], folder: Path) -> str:
    """In a folder that has no sources, with no other programs to be found."""
    environment = {"PATH": str(python.parent), "HOME": str(folder), "BURN_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([python, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_clean_environment_without_a_compiler(output: Path, tmp_path: Path) -> None:
    python = clean_environment(tmp_path / "venv", wheel(platform.machine(), output))
    where = run(python, ["-c", "import burn; print(burn.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path)
    assert "accuracy" in run(python, [EXAMPLE / "demo.py"], tmp_path).lower()


def test_the_source_distribution_builds(output: Path, tmp_path: Path) -> None:
    with tarfile.open(wheels.source_distribution(output)) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert not {".ci", "shared", "build"} & {path.name for path in source.iterdir()}
    call = f"import scikit_build_core.build as b; b.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", call], cwd=source, check=True)
    (made,) = tmp_path.glob("*.whl")
    python = clean_environment(tmp_path / "venv", made)
    assert "accuracy" in run(python, [EXAMPLE / "demo.py"], tmp_path).lower()


def test_loading_on_aarch64(output: Path, tmp_path: Path) -> None:
    """The wheel under AArch64's Python: models are compiled in process there, a package was compiled here, and all give the
    numbers of ONNX Runtime."""
    if (reason := sysroot.missing()) is not None:
        pytest.skip(reason)
    with zipfile.ZipFile(wheel("aarch64", output)) as archive:
        archive.extractall(tmp_path / "site")
    try:
        models = {"mnist": model_path("mnist"), "minilm": model_path("minilm", "dynamo"), "packed": DIGITS}
    except Unavailable as missing:
        pytest.skip(str(missing))
    feeds = {
        "mnist": random_inputs(MODELS["mnist"], seed=1),
        "minilm": random_inputs(MODELS["minilm"], seed=1, batch=2, seq=17),
        "packed": {"image": np.random.default_rng(1).standard_normal((3, 1, 8, 8)).astype(np.float32)},
    }
    (package,) = build("package", digits(), tmp_path / "digits.burn", Options(platforms.find("aarch64-linux")))
    for name in models:
        np.savez(tmp_path / f"{name}.in.npz", **feeds[name])  # type: ignore[arg-type]
    site = os.pathsep.join([str(tmp_path / "site"), str(sysroot.FOLDER / "site")])
    told = [*sysroot.python(), str(HERE / "on_aarch64.py"), str(tmp_path)]
    told += [f"{name}={package if name == 'packed' else path}" for name, path in models.items()]
    done = subprocess.run(told, cwd=tmp_path, env={**os.environ, "PYTHONPATH": site}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name, model in models.items():
        peer = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        with np.load(tmp_path / f"{name}.out.npz") as made:
            names = [each.name for each in peer.get_outputs()]
            want = dict(zip(names, peer.run(names, feeds[name]), strict=True))
            assert_close(dict(zip(names, made.values(), strict=True)), want, 1e-5)
