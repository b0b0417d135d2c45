"""Cache of compiled programs and GPU kernels on disk, so that each model is compiled once on a machine.

Entries are artefacts, and kernels, which programs share. The caller names them by a digest of all their inputs. Any number of
processes may share a cache: entries are written atomically, and an entry in use stays mapped after its eviction. For other
machines, cache_file.py writes entries as one file.

Entries are machine code. An entry or folder that belongs to another user, or that other users can write to, is never
used. Environment: BURN_CACHE_DIR (default ~/.cache/burn) and BURN_CACHE_SIZE ("500MB", "10GB"; 0
turns the cache off).
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from burn.errors import BurnError, ModelError, Problem
from burn.runtime import kernel_file, package, writing
from burn.runtime.artefact import Artefact
from burn.runtime.constants_file import ConstantsFile
from burn.runtime.files import are_copied, save_text
from burn.runtime.kernel_file import CompiledKernel
from burn.variables import variable

DEFAULT_SIZE = 10 * 10**9
LARGE = 16 << 20
"""Bytes of constants from which an entry is written by a thread."""
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {f"{unit}iB": 1024 ** (power + 1) for power, unit in enumerate("KMGT")}
_MOST_DIGITS = 18
PROGRAM, KERNEL = SUFFIXES = (".burn", ".kernel")
"""Suffixes of entries."""

NOTES = "digests"
"""The folder of notes (notes.py)."""

_MOSTLY = 0.9  # of a file of constants: the rest is room that an entry would waste
_ABANDONED_SECONDS = 24 * 3600  # a temporary file this old belongs to a process that died
_TOTAL = "bytes"
_HOMELESS = "nothing is cached: HOME is not set and this user has no home folder (BURN_CACHE_DIR names a folder)"
_ROOM = 16  # a sixteenth of the cache is freed at a time: each time every entry is looked at


T = TypeVar("T")


class CacheWarning(UserWarning):
    """The cache was of no help, and the program is compiled again."""


@dataclass(frozen=True)
class Cache:
    """A directory of artefacts of at most `size` bytes in all; the least recently used go first. How many bytes there are is
    noted in a file, so that most entries are added without a look at the others."""

    directory: Path
    size: int = DEFAULT_SIZE

    @staticmethod
    def from_environment() -> Cache:
        """Raises BurnError when a variable is malformed. Where nothing says where the user's files are, as in a container without
        HOME whose user has no entry in passwd, the cache is off, with a CacheWarning."""
        directory = variable("BURN_CACHE_DIR")
        text = variable("BURN_CACHE_SIZE")
        size = DEFAULT_SIZE if text is None else parse_size(text)
        try:
            if directory:
                return Cache(Path(directory).expanduser(), size)
            return Cache(Path(variable("XDG_CACHE_HOME") or Path.home() / ".cache") / "burn", size)
        except RuntimeError as error:  # of pathlib's: there is no home folder
            if directory:
                raise BurnError("BURN_CACHE_DIR is malformed", [f"'{directory}': {error}"]) from None
        if size:
            warnings.warn(_HOMELESS, CacheWarning, stacklevel=2)
        return Cache(_of_this_process(), 0)

    def get(self, key: bytes) -> Artefact | None:
        """The artefact put under `key`; None when there is none, or when it is damaged (it is then dropped, with a
        warning)."""
        from burn.runtime import verified

        path = self.path(key)
        writing.wait_for(path)
        return self._get(path, functools.partial(verified.load, self))

    def get_kernel(self, key: bytes) -> CompiledKernel | None:
        """The same for a kernel."""
        return self._get(self.path(key, KERNEL), kernel_file.load)

    def put(self, key: bytes, artefact: Artefact, file: ConstantsFile | None = None) -> None:
        """Keeps `artefact` under `key`. A cache that cannot be written to is worth a warning, not an error. file: one of
        `constants_file`, which becomes the entry if most of its bytes are the artefact's constants."""
        in_file = sum(c.bytes for c in artefact.constants if c.stored is not None and c.stored.file is file)

        def save(path: Path) -> None:
            if file is not None and in_file >= _MOSTLY * file.size:
                with suppress(OSError):  # without /proc, or where links are not allowed, the file gets no name
                    package.finish(artefact, file, path)
                    return
            artefact.save(path, durable=False)  # a torn file is found by its checksums

        self._put(self.path(key), save)

    def constants_file(self, key: bytes) -> ConstantsFile | None:
        """A file in the folder of an entry, for constants of the program that `put_later` puts there. None if files are copied,
        or if a file without a name cannot be made."""
        path = self.path(key)
        with suppress(OSError):
            if not are_copied():
                self.make_folders(path)
                return ConstantsFile(path.parent, self.size)
        return None

    def put_later(
        self,
        key: bytes,
        artefact: Artefact,
        is_current: Callable[[], bool] = lambda: True,
        file: ConstantsFile | None = None,
    ) -> None:
        """The same, unless `is_current` returns false. For a large artefact a thread does both, while the program goes on. It
        closes the file."""

        def put() -> None:
            try:
                if is_current():
                    self.put(key, artefact, file)
            finally:
                if file is not None:
                    file.close()

        if not self.size or sum(constant.bytes for constant in artefact.constants) < LARGE:
            put()
        else:
            writing.later(self.path(key), put)

    def put_kernel(self, key: bytes, kernel: CompiledKernel) -> None:
        """The same for a kernel."""
        self._put(self.path(key, KERNEL), lambda path: kernel_file.save(kernel, path))

    def _get(self, path: Path, load: Callable[[Path], T]) -> T | None:
        if self.size == 0 or not path.exists():
            return None
        if (why := self.distrusted(path)) is not None:
            warnings.warn(f"the cache is not used: {why}", CacheWarning, stacklevel=3)
            return None
        try:
            found = load(path)
        except ModelError as error:
            if path.exists():  # else another process has just evicted it
                warnings.warn(f"a damaged cache entry was dropped: {error}", CacheWarning, stacklevel=3)
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            return None
        with suppress(OSError):
            _used(path)
        return found

    def _put(self, path: Path, save: Callable[[Path], None]) -> None:
        if self.size == 0:
            return
        try:
            self.make_folders(path)
            save(path)
            with suppress(FileNotFoundError):  # evicted by another process just now
                path.chmod(0o600)
                _used(path)  # a file system's own clock is coarse: entries of one tick would have no order
            self.make_room(path)
        except OSError as error:
            warnings.warn(f"the compiled program was not cached: {error}", CacheWarning, stacklevel=3)

    def make_folders(self, path: Path) -> None:
        """The folders of an entry, private to this user. Raises PermissionError if another user can write to one, and OSError."""
        for folder in (self.directory, path.parent):
            make_private(folder)
        if (why := self.distrusted(path)) is not None:
            raise PermissionError(why)

    def clear(self) -> None:
        """Drops every entry and note."""
        for path in (*self.entries(), *(self.directory / NOTES).glob("*"), self.directory / _TOTAL):
            path.unlink(missing_ok=True)

    def drop(self, names: Iterable[str]) -> None:
        """Drops entries by their names."""
        for name in names:
            self.named(name).unlink(missing_ok=True)
        (self.directory / _TOTAL).unlink(missing_ok=True)

    def bytes(self) -> int:
        """The bytes of all entries on disk."""
        return sum(size for _, size, _ in self._stats())

    def distrusted(self, path: Path) -> str | None:
        """The reason why another user may have written an entry; None if it is this user's."""
        for entry in (self.directory, path.parent, path):
            try:
                if entry != self.directory and entry.is_symlink():
                    return f"{entry} is a link"
                status = entry.stat()
            except (FileNotFoundError, NotADirectoryError):  # not made yet, evicted just now, or a file is in the way
                continue
            if status.st_uid != os.getuid():
                return f"{entry} belongs to another user"
            if status.st_mode & 0o022:
                return f"others may write to {entry} (chmod go-w)"
        return None

    def folder(self, name: str) -> Path:
        """A folder in the cache for other code; a private temporary one if another user can write to it."""
        path = self.directory / name
        with suppress(OSError):
            for each in (self.directory, path):
                make_private(each)
            if self.distrusted(path / "any") is None:
                return path
        return _of_this_process() / name

    def path(self, key: bytes, suffix: str = PROGRAM) -> Path:
        """The file of an entry."""
        return self.named(hashlib.sha256(key).hexdigest() + suffix)

    def named(self, name: str) -> Path:
        """The file of an entry from its name: 64 digits of its key's digest, and the suffix."""
        return self.directory / name[:2] / name[2:]

    def entries(self) -> list[Path]:
        """The files of all entries, with those that this process still writes."""
        writing.wait()
        return self._files()

    def _files(self) -> list[Path]:
        return [path for suffix in SUFFIXES for path in self.directory.glob(f"??/*{suffix}")]

    def _stats(self) -> list[tuple[float, int, Path]]:
        """(time of last use, bytes, path); an entry that vanishes meanwhile is left out."""
        found = []
        for path in self._files():  # entries() would wait, and this thread may be one that writes
            with suppress(FileNotFoundError):
                stat = path.stat()
                found.append((stat.st_atime, stat.st_size, path))
        return found

    def make_room(self, added: Path | None = None) -> None:
        """Evicts entries if the total with the added entry is too large, or unknown. added: None for several entries, after
        which the total is unknown."""
        note = self.directory / _TOTAL
        try:
            total = None if added is None else int(note.read_text()) + added.stat().st_size
        except (OSError, ValueError):
            total = None
        if total is None or total > self.size:
            total = self._evict(keep=added)
        save_text(note, str(total), durable=False)

    def _evict(self, keep: Path | None) -> int:
        """Brings the cache below its size where it is above; returns the bytes that are left."""
        entries = sorted(self._stats())
        total = sum(size for _, size, _ in entries)
        wanted = self.size if total <= self.size else self.size - self.size // _ROOM
        for _, size, path in entries:
            if total <= wanted:
                break
            if path != keep:
                path.unlink(missing_ok=True)
                total -= size
        for path in self.directory.glob("??/.*.tmp"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()
        return total


def _used(path: Path) -> None:
    """Notes now as an entry's time of use, by which entries are evicted. The time of change stays, by which an entry is known."""
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


@functools.cache
def _of_this_process() -> Path:
    """A private folder of an unpredictable name that is gone when the process ends."""
    import shutil  # on demand: both import much, and most processes have a folder for the cache
    import tempfile

    folder = tempfile.mkdtemp(prefix="burn-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def make_private(folder: Path) -> None:
    """A folder that only this user may use, unless there is one already."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def parse_size(text: str, what: str = "BURN_CACHE_SIZE") -> int:
    """Parses "500MB", "1.5 GiB" or "1000" as bytes. what: the setting's name for the BurnError of other texts."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    units = {name.lower(): factor for name, factor in _UNITS.items()}
    if not match or match[2].lower() not in units or len(match[1]) > _MOST_DIGITS:
        raise BurnError(f"{what} is malformed", [Problem(f"'{text}' is no size", hint="such as 500MB or 10GB")])
    return int(float(match[1]) * units[match[2].lower()])
