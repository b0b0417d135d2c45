"""docs/api.txt holds the public interface. After a deliberate change: python docs/snapshot.py, and a line in the changelog."""

from __future__ import annotations

import difflib

from tests.docs.test_reference import DOCS, script


def test_public_interface_is_the_recorded_one() -> None:
    recorded, now = (DOCS / "api.txt").read_text(), script("snapshot").snapshot()
    changed = list(difflib.unified_diff(recorded.splitlines(), now.splitlines(), "docs/api.txt", "code", n=0))
    assert changed == [], (
        "the public interface changed; if that is meant: python docs/snapshot.py (docs/dev/versions.md)"
    )


def test_a_change_of_a_signature_is_seen() -> None:
    surface, snapshot = script("surface"), script("snapshot")

    class Thing:
        """A class."""

        def __init__(self, size: int) -> None:
            self.size = size

        def grow(self, by: int = 1) -> int:
            return self.size + by

        @property
        def half(self) -> int:
            return self.size // 2

        def _own(self) -> None: ...

    lines = list(snapshot.described(surface.Entry("burn.Thing", Thing, "page")))
    assert lines == ["class burn.Thing(size: int)", "    grow(self, by: int = 1) -> int", "    half"]
    assert "burn.load(path:" in snapshot.snapshot()
