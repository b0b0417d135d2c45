"""Autotuning modes: how much time a compilation spends on the search for faster variants, and the source of the
setting.

BURN_AUTOTUNE sets the mode if the caller does not.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from burn.errors import BurnError, TypeMismatch
from burn.variables import variable

MODES = ("off", "fast", "full")
VARIABLE = "BURN_AUTOTUNE"

_DRAWN = r"any:(\d{1,18})"
"""For tests: variants are drawn by a seed without timing, so that tests eventually cover every variant."""


class Mode(NamedTuple):
    """name: one of MODES; "off" also for drawn variants (`seed`). requested: set by the environment, not by the caller;
    then programs that cannot be tuned compile without an error."""

    name: str = "off"
    seed: int | None = None
    requested: bool = False

    @property
    def is_off(self) -> bool:
        return self.name == "off" and self.seed is None

    @property
    def key(self) -> str:
        """Distinguishes programs compiled in different modes; a request of the environment may not have been met."""
        return f"{self.name}{'?' * self.requested}" if self.seed is None else f"any:{self.seed}"


OFF = Mode()


def mode_of(given: str | None = None) -> Mode:
    """The mode of that name, by default the environment's. Raises TypeMismatch for an unknown one, BurnError for an
    unknown one in the environment."""
    text = given if given is not None else variable(VARIABLE) or "off"
    if text in MODES:
        return Mode(text, requested=given is None)
    if drawn := re.fullmatch(_DRAWN, text):
        return Mode(seed=int(drawn[1]), requested=given is None)
    if given is None:
        raise BurnError(f"{VARIABLE} is malformed", [f"'{text}' is none of {', '.join(MODES)}"])
    raise TypeMismatch(f"there is no autotuning {given!r}", [f"there are {', '.join(MODES)}"])
