"""C compilers: what is made of C files, by each compiler that is here, and what is said where there is none."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from burn import toolchain
from burn.errors import CompileError
from burn.toolchain import Toolchain, platforms

MAIN = '#include <stdio.h>\nint twice(int);\nint main(void) { printf("%d\\n", twice(21)); return 0; }\n'
TWICE = "__attribute__((visibility({}))) int twice(int x) {{ return 2 * x; }}\n"


@pytest.fixture(params=["ziglang", "system"])
def chain(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    if request.param == "ziglang":
        pytest.importorskip("ziglang")
        monkeypatch.delenv("CC", raising=False)
    else:
        if not (system := shutil.which("cc")):
            pytest.skip("there is no cc")
        monkeypatch.setenv("CC", system)
    return toolchain.find(platforms.find())


def _sources(folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    (folder / "main.c").write_text(MAIN)
    (folder / "twice.c").write_text(TWICE.format('"default"'))
    return [folder / "main.c", folder / "twice.c"]


def test_a_program(chain: Toolchain, tmp_path: Path) -> None:
    chain.program(chain.compile(_sources(tmp_path), tmp_path), tmp_path / "out")
    assert subprocess.check_output([tmp_path / "out"], text=True) == "42\n"


def test_libraries(chain: Toolchain, tmp_path: Path) -> None:
    main, twice = chain.compile(_sources(tmp_path), tmp_path)
    chain.archive([twice], tmp_path / "libtwice.a")
    chain.program([main, tmp_path / "libtwice.a"], tmp_path / "out")
    assert subprocess.check_output([tmp_path / "out"], text=True) == "42\n"
    chain.shared([twice], tmp_path / "libtwice.so", ("twice",))
    assert ctypes.CDLL(str(tmp_path / "libtwice.so")).twice(4) == 8


def test_the_same_bytes_wherever_it_is_made(chain: Toolchain, tmp_path: Path) -> None:
    made = []
    for folder in (tmp_path / "a", tmp_path / "another"):
        objects = chain.compile(_sources(folder), folder)
        chain.program(objects, folder / "out")
        chain.archive(objects, folder / "out.a")
        made.append([(folder / name).read_bytes() for name in ("out", "out.a")])
    assert made[0] == made[1]


def test_what_the_compiler_says(chain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "wrong.c").write_text("int f(void) { return nothing; }\n")
    with pytest.raises(CompileError, match="nothing"):
        chain.compile([tmp_path / "wrong.c"], tmp_path)
    (tmp_path / "needs.c").write_text("int absent(void);\nint main(void) { return absent(); }\n")
    with pytest.raises(CompileError, match="absent"):
        chain.program(chain.compile([tmp_path / "needs.c"], tmp_path), tmp_path / "out")


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CompileError, match=r"burn-mlir\[deploy\]"):
        toolchain.find(platforms.find())
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(CompileError, match="/nowhere/cc cannot be run"):
        _ = toolchain.find(platforms.find()).identity


def test_no_such_platform() -> None:
    with pytest.raises(CompileError, match="did you mean 'x86_64-linux'"):
        platforms.find("x86-64-linux")
