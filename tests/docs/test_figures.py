"""The pictures of the site are those that docs/figures.py writes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

from figures import FOLDER, groups, pictures  # noqa: E402


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return dict(pictures())


def test_the_files_are_up_to_date(drawn: dict[str, str]) -> None:
    for name, text in drawn.items():
        assert (FOLDER / name).read_text() == text, "run python docs/figures.py"


def test_each_picture_is_on_a_page_and_has_an_alternative_text(drawn: dict[str, str]) -> None:
    shown = [
        match for page in DOCS.rglob("*.md") for match in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text())
    ]
    assert {Path(target).name for _, target in shown} >= set(drawn)
    assert all(text for text, _ in shown)


def test_nothing_is_drawn_outside(drawn: dict[str, str]) -> None:
    for text in drawn.values():
        root = ElementTree.fromstring(text)
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        for element in root.iter("{http://www.w3.org/2000/svg}rect"):
            x, y = float(element.get("x", "0")), float(element.get("y", "0"))
            assert x + float(element.attrib["width"]) <= width and y + float(element.attrib["height"]) <= height
        assert "prefers-color-scheme: dark" in text


def test_a_normalisation_and_two_matmuls_are_three_kernels() -> None:
    kernels = groups()
    assert [kernel.count("dot_general") for kernel in kernels] == [0, 1, 1]
    assert "erf" in kernels[1] and "rsqrt" in kernels[0]
