"""How much time a compilation spends on finding faster forms of what it makes, and who asked for that.

BURN_AUTOTUNE says so where the caller does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from burn.errors import BurnError, TypeMismatch
from burn.variables import variable

MODES = ("off", "fast", "full")
VARIABLE = "BURN_AUTOTUNE"

_DRAWN = re.compile(r"any:(\d{1,18})")
"""For tests: forms are drawn by a seed and nothing is timed, so that every form's results are looked at sooner or later."""


@dataclass(frozen=True)
class Mode:
    """name: one of MODES; "off" also where forms are drawn, by `seed`. wished: by the environment and not by the caller, so that
    what cannot be tuned is no error and is compiled as ever."""

    name: str = "off"
    seed: int | None = None
    wished: bool = False

    @property
    def is_off(self) -> bool:
        return self.name == "off" and self.seed is None

    @property
    def key(self) -> str:
        """What tells programs apart that were compiled so; a wish may not have been granted."""
        return f"{self.name}{'?' * self.wished}" if self.seed is None else f"any:{self.seed}"


OFF = Mode()


def mode_of(given: str | None = None) -> Mode:
    """The mode of that name, the environment's where there is none. Raises TypeMismatch for one that there is not, BurnError
    where it is the environment's."""
    text = given if given is not None else variable(VARIABLE) or "off"
    if text in MODES:
        return Mode(text, wished=given is None)
    if drawn := _DRAWN.fullmatch(text):
        return Mode(seed=int(drawn[1]), wished=given is None)
    if given is None:
        raise BurnError(f"{VARIABLE} is malformed", [f"'{text}' is none of {', '.join(MODES)}"])
    raise TypeMismatch(f"there is no autotuning {given!r}", [f"there are {', '.join(MODES)}"])
