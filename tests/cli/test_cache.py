"""`burn cache`: what is listed, deleted, exported and imported, with CPU programs and a simulated GPU."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import burn
from burn.cli.main import main
from burn.runtime.cache import Cache
from tests.codegen.gpu.conftest import gpu  # noqa: F401
from tests.deploy.test_packages import keys


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["cache", *map(str, arguments)])


def printed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def compiled(device: str = "cpu", factor: float = 2.0) -> None:
    """A program, compiled or from the cache, that must be right."""
    made = burn.compile(lambda x: x * factor, ("float32[n]",), device=device)
    np.testing.assert_array_equal(made(np.arange(5, dtype=np.float32)), np.arange(5, dtype=np.float32) * factor)


def test_an_exported_cache_compiles_nothing(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()
    assert printed("export", tmp_path / "file").startswith(f"{tmp_path / 'file'}: 1 entry, ")
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path / "container"))
    assert printed("import", tmp_path / "file") == f"{tmp_path / 'container'}: 1 new, 0 already there\n"
    before = burn.compile_count()
    compiled()
    assert burn.compile_count() == before
    compiled(factor=3.0)
    assert burn.compile_count() == before + 1
    assert printed("import", tmp_path / "file") == f"{tmp_path / 'container'}: 0 new, 1 already there\n"


@pytest.mark.usefixtures("gpu")
def test_devices(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()
    compiled("cuda")
    rows = json.loads(printed("list", "--json"))
    assert [(row["kind"], row["device"], row["about"]) for row in rows] == [
        ("program", "cuda", "float32[n] -> float32[n]"),
        ("program", "cpu", "float32[n] -> float32[n]"),
    ]
    assert "float32[n] -> float32[n]" in printed("list", "--device", "cuda")
    sums = json.loads(printed("size", "--json"))
    assert {name.rpartition(" ")[0].split()[0]: part["entries"] for name, part in sums["parts"].items()} == {
        "cpu": 1,
        "cuda": 1,
    }
    assert sums["bytes"] == sum(row["bytes"] for row in rows) == Cache.from_environment().bytes()
    printed("export", tmp_path / "file", "--device", "cuda")
    assert printed("clear", "--device", "cuda").startswith("deleted 1 entry")
    assert [row["device"] for row in json.loads(printed("list", "--json"))] == ["cpu"]
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path / "container"))
    assert "1 new" in printed("import", tmp_path / "file")
    before = burn.compile_count()
    compiled("cuda")
    assert burn.compile_count() == before


def test_entries_of_other_versions(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from burn.runtime import versions

    monkeypatch.setattr(versions, "installed", lambda name: "0.0")
    compiled()
    monkeypatch.undo()
    monkeypatch.setenv("BURN_CACHE_DIR", str(own_cache))
    monkeypatch.delenv("BURN_CACHE_SIZE")
    result = run("export", tmp_path / "file")
    assert result.exit_code == 1 and "has no entry of these versions" in result.output
    assert not (tmp_path / "file").exists()
    compiled()
    assert json.loads(printed("list", "--json"))[1]["of_other_versions"] == ["torch-mlir 0.0"]
    assert printed("clear", "--other-versions").startswith("deleted 1 entry")
    assert printed("clear").startswith("deleted 1 entry") and not json.loads(printed("list", "--json"))


def test_the_time_of_use_is_exact_and_a_list_is_no_use(own_cache: Path) -> None:
    """The clock of a file system has ticks of milliseconds, in which several small programs are compiled."""
    before = time.time_ns()
    compiled()
    after = time.time_ns()
    (entry,) = Cache.from_environment().entries()
    used = entry.stat().st_atime_ns
    assert before <= used <= after
    printed("list")
    printed("size")
    assert entry.stat().st_atime_ns == used


def test_signed_files(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private, public = keys(tmp_path)
    compiled()
    printed("export", tmp_path / "unsigned")
    printed("export", tmp_path / "signed", "--sign", private)
    assert "0 new, 1 already there" in printed("import", tmp_path / "signed", "--signed-by", public)
    monkeypatch.setenv("BURN_ONLY_SIGNED", str(public))
    result = run("import", tmp_path / "unsigned")
    assert (
        result.exit_code == 1 and "it is not signed (--sign KEY of burn-compile or burn cache export" in result.output
    )
    assert "already there" in printed("import", tmp_path / "signed")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("list", "--device", "tpu"), "there is no kind of device 'tpu'"),
        (("import", "nowhere"), "nowhere: there is no such file"),
        (("import", "."), "is a folder, not a file"),
        (("import", "text"), "text is no exported cache that can be imported"),
        (("export", "absent/file"), "No such file or directory"),
    ],
)
def test_errors(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("no cache" * 100)
    compiled()
    result = run(*arguments)
    assert result.exit_code == 1 and text in result.output
    assert len(result.output.splitlines()) <= 2
