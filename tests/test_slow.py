"""The tests that slow.txt leaves out of the default run exist."""

from __future__ import annotations

from pathlib import Path

import pytest

LIST = Path(__file__).parent / "slow.txt"
NAMES = [line for line in LIST.read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("name", NAMES)
def test_a_slow_test_exists(name: str) -> None:
    file, _, test = name.partition("::")
    source = (LIST.parents[1] / file).read_text()
    assert f"def {test.partition('[')[0]}(" in source


def test_the_list_has_each_name_once() -> None:
    assert len(set(NAMES)) == len(NAMES)
