"""Files and options of commands that pages name exist, and a page says a thing once. Links are in test_reference.py."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from itertools import combinations
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "internals").glob("*.md")])
ALL = [*PAGES, ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
FILE = re.compile(r"`([\w./*-]*[\w*-]+\.(?:py|c|h|cpp|js|md))`")


@pytest.fixture(scope="module")
def present() -> list[str]:
    folders = ("burn", "docs", "tests", "examples", "benchmarks", "release")
    below = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    return [path.relative_to(ROOT).as_posix() for path in (*below, *ROOT.glob("*.*"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_files_exist(page: Path, present: list[str]) -> None:
    """A name such as `gemm.py` or `hopper/*_library.py` is the end of some path of the repository."""
    missing = []
    for name in FILE.findall(page.read_text()):
        ending = re.compile(r"(^|/)" + re.escape(name).replace(r"\*", "[^/]*") + "$")
        if not any(ending.search(path) for path in present):
            missing.append(name)
    assert missing == []


COMMAND = re.compile(r"`(burn(?:-\w+)? [^`\n]*)`|^\$ (burn(?:-\w+)? .*)$", re.MULTILINE)


def option_names(command: click.Command, words: list[str]) -> Iterator[str]:
    """The options of a command; of a group those of the inner command that the words name, or of all."""
    for param in command.get_params(click.Context(command)):
        yield from (*param.opts, *param.secondary_opts)
    if isinstance(command, click.Group):
        context = click.Context(command)
        names = command.list_commands(context)
        for name in words[:1] if words[:1] and words[0] in names else names:
            inner = command.get_command(context, name)
            assert inner is not None
            yield from option_names(inner, words[1:])


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_options_exist(page: Path) -> None:
    """Each `--option` of a quoted call of one of burn's commands, in text and in console blocks."""
    scripts = {
        script.name: script for script in entry_points(group="console_scripts") if script.value.startswith("burn.")
    }  # each is `partial(start, module)`
    unknown = []
    for match in COMMAND.finditer(page.read_text()):
        call = shlex.split(match[1] or match[2], comments=True)
        if call[0] in scripts:
            command = import_module(scripts[call[0]].load().args[0]).main
            known = {"--help", *option_names(command, call[1:])}
            unknown += [(call, word) for word in call if word.startswith("--") and word.partition("=")[0] not in known]
    assert unknown == []


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_says_a_thing_once(page: Path) -> None:
    """No section is empty, and no two paragraphs share half of their words: both remain when a section is rewritten."""
    text = re.sub(r"^```.*?^```", "code", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.finditer(r"^(#+) .*\n\s*(?=(#+) )", text, re.MULTILINE)
    assert [match[0] for match in headings if len(match[2]) <= len(match[1])] == []
    paragraphs = [p for p in re.split(r"\n\s*\n", text) if len(p) > 100 and not p.startswith("|")]
    words = [set(re.findall(r"\w+", p.lower())) for p in paragraphs]
    pairs = combinations(range(len(words)), 2)
    alike = [(i, j) for i, j in pairs if 2 * len(words[i] & words[j]) > len(words[i] | words[j])]
    assert [(paragraphs[i], paragraphs[j]) for i, j in alike] == []
