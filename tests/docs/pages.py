"""Pages of the documentation as programs: their blocks of code, and how each kind is run. Enter at `run`.

A block's first line says its kind. All of a page's blocks of one kind share their names, in the order of the page:

    ```python           run; shown values are in comments
    ```python torch     run with PyTorch, where it is installed; the `burn` block that follows must give the same
    ```python jax       run with JAX, where it is installed
    ```python burn      run; every name that this block and the `torch` block before it both set must agree
    ```console          lines that begin with "$ " are run; other lines are output, which is not compared
    ```console NEEDS    the same, if all is to be run, where the programs and Python packages that it names are installed

    ```c main.c         written to a file of that name, in any language, for the console blocks that follow

Anything else (`sh`, `text` ...) is only read by people. The working directory is an empty folder. burn's own commands run in
this process, as each would need a second to import burn; tests/cli/test_commands.py starts them as processes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

import burn
from burn.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
_FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: its kind ("python torch"), its text, and the line it begins on."""

    kind: str
    code: str
    line: int

    @property
    def language(self) -> str:
        return self.kind.partition(" ")[0]

    @property
    def file(self) -> str:
        """The file that it is to be written to, or ""."""
        name = self.kind.partition(" ")[2]
        return name if "." in name else ""

    @property
    def needs(self) -> list[str]:
        """Packages and programs that must be installed to run the block."""
        return self.kind.split()[1:] if self.language == "console" else []

    @property
    def is_run(self) -> bool:
        return self.language in ("console", "python") or bool(self.file)


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(" ".join(match["kind"].split()), match["code"], text.count("\n", 0, match.start()) + 2)
        for match in _FENCE.finditer(text)
    ]


def lacking(block: Block) -> list[str]:
    """Missing packages and programs of the block."""
    return [name for name in block.needs if shutil.which(name) is None and find_spec(name) is None]


def run(page: Path, folder: Path, everything: bool = False) -> int:
    """Runs a page's code in a folder. Returns how many blocks ran; raises what they raise, and AssertionError. everything: with
    the blocks that need other programs, where those are here."""
    spaces: dict[str, dict[str, Any]] = {}
    before: dict[str, Any] = {}
    ran = 0
    for block in blocks(page):
        if block.language == "console":
            if block.needs and (not everything or lacking(block)):
                continue
            _console(block, folder)
        elif block.file:
            (folder / block.file).write_text(block.code)
            continue
        elif block.language == "python":
            library = block.kind.partition(" ")[2]
            if library in ("torch", "jax") and find_spec(library) is None:
                before = {}
                continue
            space = spaces.setdefault(block.kind, {"__name__": "__main__"})
            known = dict(space)
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), space)
            made = {k: v for k, v in space.items() if known.get(k) is not v}
            if block.kind == "python burn":
                _compare(before, made, f"{page.name}:{block.line}")
            before = made if block.kind == "python torch" else {}
        else:
            continue
        ran += 1
    return ran


def _console(block: Block, folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    scripts = {script.name for script in entry_points(group="console_scripts") if script.value.startswith("burn.")}
    modules = {"burn": "burn.cli.main", **{f"burn-{name}": module for name, (module, _) in COMMANDS.items()}}
    for line in block.code.splitlines():
        if line.startswith("$ "):
            command = shlex.split(line[2:], comments=True)
            variables = {"PATH": path}
            while re.match(r"\w+=", command[0]):
                name, _, value = command.pop(0).partition("=")
                variables[name] = value
            if command[0] in scripts:
                result = CliRunner().invoke(import_module(modules[command[0]]).main, command[1:])
                assert result.exit_code == 0, f"{line}\n{result.output}{result.exception!r}"
                continue
            done = subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def _compare(theirs: Mapping[str, Any], ours: Mapping[str, Any], where: str) -> None:
    for name in theirs.keys() & ours.keys():
        a, b = _array(theirs[name]), _array(ours[name])
        if a is not None and b is not None:
            assert a.shape == b.shape, f"{where}: {name} has shape {b.shape}, torch's {a.shape}"
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5, err_msg=f"{where}: {name}")


def _array(value: Any) -> np.ndarray | None:
    if isinstance(value, (int, float, np.ndarray)):
        return np.asarray(value, np.float64)
    if isinstance(value, burn.Tensor):
        return value.numpy().astype(np.float64)
    if type(value).__module__.startswith("torch") and hasattr(value, "detach"):
        return value.detach().numpy().astype(np.float64)
    return None
