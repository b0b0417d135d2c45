"""How a run ends early: `failed`, which raises what `Executable` makes a RunError of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from burn.runtime import _native
from burn.runtime.abi import Status


class Failed(Exception):
    """A run that failed at a node, with the status and its value."""

    def __init__(self, status: Status, site: str, value: int) -> None:
        super().__init__(status, site, value)
        self.status, self.site, self.value = status, site, value

    def error(self, sites: Mapping[str, int]) -> Exception:
        """The native runtime's exception. sites: the numbers of source nodes in the artefact."""
        return _native.RunFailure(int(self.status), sites.get(self.site, -1), self.value)


def failed(status: Status, site: str = "", value: int = 0) -> NoReturn:
    raise Failed(status, site, value)
