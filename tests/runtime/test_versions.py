"""Digests of the files that compiled programs depend on."""

from __future__ import annotations

from pathlib import Path

import pytest

from burn.runtime import versions


@pytest.mark.parametrize("name", ["codegen/wgsl/library.wgsl", "codegen/printer.py"])
def test_sources_change_with_text_that_kernels_are_made_of(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "__file__", str(tmp_path / "runtime" / "versions.py"))
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    found = []
    for text in ("one", "other"):  # of different sizes, as a file's time of change may be the same
        path.write_text(text)
        found.append(versions.sources.__wrapped__())
    assert found[0] != found[1]


def test_every_text_in_the_package_is_known() -> None:
    """A new kind of file in the compiler's folders either counts for the digest, or is named here."""
    root = Path(versions.__file__).parent.parent
    unrelated = {".pyi", ".typed", ".html", ".so", ".pyc"}
    for path in root.rglob("*"):
        if path.is_file() and "native" not in path.parts and "__pycache__" not in path.parts:
            assert path.suffix in {*versions.SOURCES, *unrelated} or path.name == "py.typed", path
