"""The reference has every public name, links lead somewhere, and the site builds without warnings."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import burn
from burn import nn, ops
from burn.dialect.op import REGISTRY
from burn.tensors.functions import NAMES
from burn.variables import VARIABLES
from tests.api.rows import ROWS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *(p for p in DOCS.rglob("*/*.md") if "reference" not in p.parts)]
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
SPAN = re.compile(r"`(burn(?:\.[A-Za-z_]\w*)+)(?:\([^`]*)?`")


@cache
def script(name: str) -> ModuleType:
    """A script of docs/ as a module."""
    if str(DOCS) not in sys.path:
        sys.path.insert(0, str(DOCS))
    return import_module(name)


@cache
def reference() -> dict[str, str]:
    """The pages of the reference: name -> text."""
    return script("gen").pages()


def test_every_public_name_has_a_docstring() -> None:
    assert [entry.name for entry in script("surface").entries() if not entry.documentation.strip()] == []


def test_every_public_name_has_one_entry() -> None:
    text = "\n".join(reference().values())
    entries = re.findall(r"^::::\{py:(?:class|function|data|exception)\} ([\w.]+)", text, re.MULTILINE)
    assert sorted(entries) == sorted(entry.name for entry in script("surface").entries())


def test_public_names_are_all_found() -> None:
    """The list against the package itself: `__all__` of the package and its modules, tensor functions, ops, layers."""
    known = {entry.name for entry in script("surface").entries()} | set(script("surface").aliases())
    public = {f"burn.{name}" for name in (*burn.__all__, *NAMES)}
    public |= {f"burn.ops.{name}" for name in ops.names()} | {f"burn.nn.{name}" for name in nn.__all__}
    modules = {name for name in public if isinstance(attribute(name), ModuleType)}
    assert public - known - modules == set()
    assert {f"burn.{row.key}" for row in ROWS} - known == set()
    families = {name.rpartition(".")[0] for name in known}
    assert modules - families - {"burn.nn.loss"} == set(), "a public module without entries"


def test_the_guide_lists_every_environment_variable() -> None:
    """The first column of the table in install.md against the variables that burn reads."""
    page = (DOCS / "guide" / "install.md").read_text()
    section = page.partition("## Environment variables\n")[2].partition("\n## ")[0]
    names = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(names))) == sorted(VARIABLES)


def test_index_lists_every_page() -> None:
    listed = re.findall(r"\]\(([\w-]+)\.md\)", script("gen").index(reference()))
    assert sorted(listed) == sorted(reference())


def attribute(path: str) -> Any:
    """burn.nn.Linear, by attributes and modules. Raises AttributeError."""
    value: Any = burn
    for i, part in enumerate(path.split(".")[1:], 2):
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = import_module(".".join(path.split(".")[:i]))
            except ModuleNotFoundError:
                raise AttributeError(path) from None
    return value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


def broken(page: Path) -> Iterator[str]:
    """The links of a page to files or headings that do not exist."""
    text = without_code(page.read_text())
    for file, anchor in LINK.findall(text):
        target = (page.parent / file).resolve() if file else page
        generated = target.parent == DOCS / "reference" and target.stem in {*reference(), "index"}
        if not generated and not target.exists():
            yield file
        elif anchor and target.suffix == ".md":
            content = reference()[target.stem] if generated else target.read_text()
            if anchor not in anchors(content):
                yield f"{file}#{anchor}"


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST write them."""
    titles = re.findall(r"^#{1,4} (.+)$", without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title).lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.parent.name != "dev" and p.stem != "CHANGELOG"], ids=lambda page: page.stem
)
def test_names_in_pages_exist(page: Path) -> None:
    """A code span such as `burn.nn.Linear(4, 2)` names something that exists; `burn.add` may also be an op of the dialect."""
    unknown, absent = [], ""
    for name in SPAN.findall(without_code(page.read_text())):
        try:
            attribute(name)
        except AttributeError:
            if name.removeprefix("burn.") not in REGISTRY:
                unknown.append(name)
        except ImportError as error:  # of an extra
            absent = str(error)
    assert unknown == []
    if absent:
        pytest.skip(absent)


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One page\n\n[a](b.md) [c](#one-page) [d](#two) [e](page.md#one-page)\n\n```text\n[f](g.md)\n```\n"
    )
    assert list(broken(page)) == ["b.md", "#two"]


@pytest.mark.slow  # about a minute, notebooks among it
def test_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    pytest.importorskip("myst_nb")
    subprocess.run([sys.executable, DOCS / "gen.py"], check=True, capture_output=True)
    options = ["--nitpicky", "--fail-on-warning", "--keep-going", "--quiet", "-b", "html", "-d", tmp_path / "trees"]
    command = [sys.executable, "-m", "sphinx", *options, DOCS, tmp_path / "site"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    inventory = (tmp_path / "site" / "searchindex.js").read_text()
    assert "compile_count" in inventory and (tmp_path / "site" / "index.html").exists()
