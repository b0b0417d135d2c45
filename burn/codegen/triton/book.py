"""What autotuning found, on disk: a file for each card and kernel, in burn's cache folder. A file that is damaged, or tells of a
shape that is not tried any more, counts for nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from burn.codegen.triton.choices import Shape
from burn.runtime.cache import Cache
from burn.runtime.files import save_text


@dataclass(frozen=True)
class Book:
    """folder: a card's; none where nothing is kept."""

    folder: Path | None

    @staticmethod
    def of(card: str) -> Book:
        cache = Cache.from_environment()
        name = re.sub(r"\W+", "-", card).strip("-")
        return Book(cache.directory / "tuned" / name if cache.size else None)

    def get(self, key: str, shapes: Sequence[Shape], tried: int) -> Shape | None:
        """The fastest one of `shapes`, if the first `tried` of them have been timed, or more."""
        if self.folder is None:
            return None
        try:
            noted = json.loads((self.folder / f"{key}.json").read_text())
            by_text = {_text(shape): shape for shape in shapes}
            return by_text.get(noted["shape"]) if noted["tried"] >= min(tried, len(shapes)) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, shape: Shape, times: Mapping[int, float], tried: int) -> None:
        """times: seconds by the numbers of shapes, of the first `tried` of which some did not fit the card."""
        if self.folder is None:
            return
        microseconds = {number: round(seconds * 1e6, 3) for number, seconds in times.items()}
        noted = {"shape": _text(shape), "tried": tried, "microseconds": microseconds}
        with suppress(OSError):  # what is not kept is timed again
            self.folder.mkdir(parents=True, exist_ok=True)
            save_text(self.folder / f"{key}.json", json.dumps(noted))


def _text(shape: Shape) -> str:
    return json.dumps({"kind": type(shape).__name__, **asdict(shape)})
