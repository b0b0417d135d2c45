"""Autotuning results on disk: one file per machine and key, in burn's cache folder. Damaged files, variants that no longer
exist, and results of other versions of burn or of its compilers are ignored, and overwritten by new ones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from burn.codegen.tuning.choices import Variant
from burn.runtime import registry, versions
from burn.runtime.cache import Cache
from burn.runtime.files import save_text


@dataclass(frozen=True)
class Book:
    """folder: the machine's folder; None if nothing is stored. versions: those of everything that generates the code."""

    folder: Path | None
    versions: tuple[str, ...] = ()

    @staticmethod
    def of(machine: str, kind: str) -> Book:
        """machine: a GPU's name, or all properties of a CPU that timings depend on. kind: of the device ("cpu", "cuda")."""
        cache = Cache.from_environment()
        name = re.sub(r"\W+", "-", machine).strip("-")
        folder = cache.directory / "tuned" / name if cache.size else None
        return Book(folder, versions.compilers(registry.entry(kind).packages))

    def get(self, key: str, variants: Sequence[Variant], tried: int) -> Variant | None:
        """The fastest of `variants`, if at least the first `tried` of them have been timed."""
        if self.folder is None:
            return None
        try:
            noted = json.loads((self.folder / f"{key}.json").read_text())
            if tuple(noted["versions"]) != self.versions:
                return None
            by_text = {_text(variant): variant for variant in variants}
            return by_text.get(noted["shape"]) if noted["tried"] >= min(tried, len(variants)) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, variant: Variant, times: Mapping[int, float], tried: int) -> None:
        """times: seconds by variant number, of the first `tried`; variants that could not be built are missing."""
        if self.folder is None:
            return
        microseconds = {number: round(seconds * 1e6, 3) for number, seconds in times.items()}
        noted = {
            "shape": _text(variant),
            "tried": tried,
            "microseconds": microseconds,
            "versions": self.versions,
        }
        with suppress(OSError):  # without a stored result it is timed again
            self.folder.mkdir(parents=True, exist_ok=True)
            save_text(self.folder / f"{key}.json", json.dumps(noted))


def _text(variant: Variant) -> str:
    return json.dumps({"kind": type(variant).__name__, **asdict(variant)})
