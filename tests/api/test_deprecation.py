"""Deprecated names and arguments warn at the caller's line, and go in the version that was announced."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

import burn
from burn import deprecation
from burn.deprecation import KNOWN, deprecated, renamed
from tests.docs.test_reference import script


@pytest.fixture(autouse=True)
def only_here() -> Iterator[None]:
    before = list(KNOWN)
    yield
    KNOWN[:] = before


def test_function() -> None:
    @deprecated(since="0.1", removed="0.3", instead="burn.new")
    def old(x: int) -> int:
        """Doubles."""
        return 2 * x

    with pytest.warns(
        DeprecationWarning, match=r"old is deprecated since burn 0\.1 .* in 0\.3; use burn\.new"
    ) as caught:
        assert old(4) == 8
    assert caught[0].filename == __file__
    assert (old.__doc__ or "").startswith("Doubles.") and "use burn.new" in (old.__doc__ or "")


def test_class_but_not_its_subclasses() -> None:
    @deprecated(since="0.1", removed="0.3", instead="burn.New")
    class Old:
        def __init__(self, x: int) -> None:
            self.x = x

    class Own(Old):
        pass

    with pytest.warns(DeprecationWarning, match="use burn.New") as caught:
        assert Old(3).x == 3
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Own(4).x == 4
        assert isinstance(Own(4), Old)


def test_argument() -> None:
    @renamed(axis="dim", since="0.1", removed="0.3")
    def total(x: int, axis: int = 0) -> tuple[int, int]:
        return x, axis

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert total(1, axis=2) == total(1, 2) == (1, 2)
    with pytest.warns(DeprecationWarning, match="use the argument axis"):
        assert total(1, dim=2) == (1, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="both 'axis' and its old name 'dim'"):
        total(1, axis=2, dim=2)  # type: ignore[call-arg]


def test_nothing_is_overdue() -> None:
    """Imports all public names first, so that every decorator has run."""
    script("surface").entries()
    version = _numbers(burn.__version__)
    assert [str(notice) for notice in deprecation.KNOWN if _numbers(notice.removed) <= version] == []


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
