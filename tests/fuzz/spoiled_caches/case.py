"""One spoiled cache: listed, exported and imported, and each entry loaded that is imported. Enter at `case`."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from pathlib import Path

from click.testing import CliRunner

from burn.cli.cache import main
from burn.errors import BurnError
from burn.runtime import cache_file, kernel_file, package
from burn.runtime.cache import KERNEL, Cache
from tests.fuzz.runner import Outcome
from tests.fuzz.spoiled_caches.mutate import Entries, mutate

SECONDS = 120.0
MEMORY = 4 << 30  # bytes of address space: the files take some kilobytes


def case(seed: int) -> Outcome:
    """The result of each command on a seed's cache and file: "refused" if the import refused an entry, or gave one error."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return _tried(*mutate(seed), Path(folder))
        except Exception:
            return Outcome("exception", traceback.format_exc())


def _tried(entries: Entries, exported: bytes, folder: Path) -> Outcome:
    spoiled, new = Cache(folder / "spoiled"), Cache(folder / "new")
    for name, data in entries.items():
        spoiled.make_folders(spoiled.named(name))
        spoiled.named(name).write_bytes(data)
        spoiled.named(name).chmod(0o600)
    if problem := _commands(spoiled, folder / "out"):
        return problem
    (folder / "file").write_bytes(exported)
    try:
        merged = cache_file.load(new, folder / "file")
    except BurnError as error:
        outcome = Outcome("refused", str(error))
    else:
        count = sum(merged.refused.values())
        if merged.present or merged.added + count > len(entries):
            return Outcome("miscounted", str(merged))
        outcome = Outcome("refused" if count else "ok", str(merged))
    noted = new.directory / "bytes"
    if new.entries() and int(noted.read_text()) != new.bytes():
        return Outcome("miscounted", f"{noted.read_text()} bytes are noted, and there are {new.bytes()}")
    for path in new.entries():  # raises ModelError for an entry that should not be there
        if path.name.endswith(KERNEL):
            kernel_file.load(path)
        else:
            package.load(path)
    return _commands(new, folder / "again") or outcome


def _commands(cache: Cache, out: Path) -> Outcome | None:
    """A failure of `burn cache`, if there is one."""
    environment = {"BURN_CACHE_DIR": str(cache.directory), "BURN_CACHE_SIZE": "1GB"}
    for arguments in (["list"], ["list", "--json"], ["size"], ["export", str(out)]):
        result = CliRunner().invoke(main, arguments, env=environment)
        text = result.output
        if "internal error" in text or (result.exit_code and "there is nothing to export" not in text):
            return Outcome("exception", f"burn cache {' '.join(arguments)}: {text}{result.exception!r}")
    return None
