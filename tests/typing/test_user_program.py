"""Type checkers find the mistakes of a user's program, and no others, from burn's signatures."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = Path(__file__).with_name("program.txt").read_text()
WRONG = {number for number, line in enumerate(TEXT.splitlines(), 1) if line.endswith("# wrong")}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(TEXT)
    return path


def _said(*words: str | Path) -> str:
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_pyright(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    settings = {"include": [program.name], "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    said = _said("pyright", "--outputjson", "--project", tmp_path, "--pythonpath", sys.executable)
    found = {
        d["range"]["start"]["line"] + 1 for d in json.loads(said)["generalDiagnostics"] if d["severity"] == "error"
    }
    assert len(WRONG) >= 20
    assert found == WRONG


def test_mypy(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    words = ["--follow-imports=silent", "--python-executable", sys.executable, "--cache-dir", tmp_path / "cache"]
    said = _said("mypy", *words, program)
    found = {int(number) for number in re.findall(r"program\.py:(\d+): error", said)}
    assert found == WRONG, said


def test_modules_with_getattr_have_stubs() -> None:
    """In an import cycle, mypy reads the type of a module's `__getattr__` before it has analysed it, and ends with an internal
    error. A stub names the functions, or imports nothing of burn."""
    found = [path for path in (ROOT / "burn").rglob("*.py") if re.search(r"(?m)^def __getattr__\(", path.read_text())]
    assert found
    assert [path for path in found if not path.with_suffix(".pyi").exists()] == []
