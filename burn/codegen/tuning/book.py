"""Autotuning results on disk: one file per machine and key, in burn's cache folder. Damaged files, variants that no longer
exist, and results of other versions of burn or of its compilers are ignored, and overwritten by new ones. The results of a
machine have a limit: the ones used least recently are dropped."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from burn.codegen.tuning.choices import Variant
from burn.runtime import notes, registry, versions
from burn.runtime.cache import Cache
from burn.runtime.files import save_text

LIMIT = 16 << 20
"""Bytes on disk of a machine's results: about four thousand."""

_REST = "rest-"
"""Begins the names of files of programs; others are of decisions."""


@dataclass(frozen=True)
class Book:
    """folder: the machine's folder; None if nothing is stored. versions: those of everything that generates the code. most: the
    size of the cache, if that is less than LIMIT."""

    folder: Path | None
    versions: tuple[str, ...] = ()
    most: int = LIMIT

    @staticmethod
    def of(machine: str, kind: str) -> Book:
        """machine: a GPU's name, or all properties of a CPU that timings depend on. kind: of the device ("cpu", "cuda")."""
        cache = Cache.from_environment()
        name = re.sub(r"\W+", "-", machine).strip("-")
        folder = cache.directory / "tuned" / name if cache.size else None
        return Book(folder, versions.compilers(registry.entry(kind).packages), cache.size)

    def get(self, key: str, variants: Sequence[Variant], tried: int) -> Variant | None:
        """The fastest of `variants`, if at least the first `tried` of them have been timed."""
        with suppress(ValueError, KeyError, TypeError):
            noted = self._read(key)
            by_text = {_text(variant): variant for variant in variants}
            return by_text.get(noted["shape"]) if noted["tried"] >= min(tried, len(variants)) else None
        return None

    def rest(self, program: str, tried: int) -> frozenset[str]:
        """The decisions of a program that a search of at least `tried` variants left at the default, because they matter
        little for its time. In another program they may matter."""
        with suppress(ValueError, KeyError, TypeError):
            noted = self._read(_REST + program)
            return frozenset(map(str, noted["keys"])) if noted["tried"] >= tried else frozenset()
        return frozenset()

    def put(self, key: str, variant: Variant, times: Mapping[int, float], tried: int) -> None:
        """times: seconds by variant number, of the first `tried`; variants that could not be built are missing."""
        microseconds = {number: round(seconds * 1e6, 3) for number, seconds in times.items()}
        self._write(key, {"shape": _text(variant), "tried": tried, "microseconds": microseconds})

    def put_rest(self, program: str, keys: Collection[str], tried: int) -> None:
        """See `rest`."""
        self._write(_REST + program, {"keys": sorted(keys), "tried": tried})

    def _read(self, name: str) -> dict[str, Any]:
        """A file's values. Raises ValueError if there are none of these versions, KeyError and TypeError for damaged ones."""
        if self.folder is None:
            raise ValueError(name)
        try:
            noted = json.loads(self._file(name).read_text())
        except OSError as error:
            raise ValueError(name) from error
        if tuple(noted["versions"]) != self.versions:
            raise ValueError(name)
        with suppress(OSError):
            notes.used(self._file(name))
        return noted

    def _write(self, name: str, values: Mapping[str, Any]) -> None:
        if self.folder is None:
            return
        with suppress(OSError):  # without a stored result it is timed again
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self._file(name)
            save_text(path, json.dumps({**values, "versions": self.versions}), durable=False)
            notes.used(path)
            notes.make_room(path, min(LIMIT, self.most))

    def _file(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name}.json"


def _text(variant: Variant) -> str:
    return json.dumps({"kind": type(variant).__name__, **asdict(variant)})
