"""`burn cache`: the compiled programs and GPU kernels on disk, and files of them for other machines."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from burn.cli.common import CONTEXT, command, console, echo, existing, print_json
from burn.errors import BurnError, DeviceError, Problem
from burn.runtime import registry
from burn.runtime.cache import Cache

if TYPE_CHECKING:
    from burn.runtime.cache_file import Entry

_UNITS = ("B", "KB", "MB", "GB", "TB")
_DIGITS = 12  # of a name, in tables

device_option = click.option("--device", help="only entries for this kind of device: cpu, cuda")
json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")


@click.group(context_settings=CONTEXT)
def main() -> None:
    """Compiled programs and GPU kernels on disk: list them, delete them, or take them to other machines.

    A process that compiles a program or kernel that the cache has takes it from there."""


@command
@device_option
@json_option
def list_(device: str | None, as_json: bool) -> None:
    """List the programs and kernels, the last used first."""
    rows = [_row(entry) for entry in _chosen(Cache.from_environment(), device)]
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table("entry", "kind", "device", "size", "used", "versions", "what")
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["used"]))
        table.add_row(
            row["name"][:_DIGITS],
            row["kind"],
            f"{row['device']} {row['architecture']}",
            _bytes(row["bytes"]),
            used,
            "others" if row["of_other_versions"] else "these",
            row["about"],
        )
    console().print(table)


@command
@json_option
def size(as_json: bool) -> None:
    """Print the number of entries and their bytes, by device."""
    cache = Cache.from_environment()
    sums: dict[str, list[int]] = {}
    for entry in _chosen(cache, None):
        each = sums.setdefault(
            f"{entry.target.kind} {entry.architecture} {'kernels' if entry.is_kernel else 'programs'}", [0, 0]
        )
        each[0] += 1
        each[1] += entry.bytes
    if as_json:
        parts = {name: {"entries": count, "bytes": number} for name, (count, number) in sums.items()}
        print_json({"folder": str(cache.directory), "bytes": cache.bytes(), "limit": cache.size, "parts": parts})
        return
    echo(f"{cache.directory}: {_bytes(cache.bytes())} of {_bytes(cache.size)}")
    for name, (count, number) in sorted(sums.items()):
        echo(f"  {name}: {count}, {_bytes(number)}")


@command
@device_option
@click.option("--other-versions", is_flag=True, help="only entries that other versions of burn or its compilers made")
def clear(device: str | None, other_versions: bool) -> None:
    """Delete the programs and kernels. Programs that run now keep theirs."""
    cache = Cache.from_environment()
    if device is None and not other_versions:
        count, number = len(cache.entries()), cache.bytes()
        cache.clear()
    else:
        chosen = [entry for entry in _chosen(cache, device) if not other_versions or entry.of_other_versions()]
        count, number = len(chosen), sum(entry.bytes for entry in chosen)
        cache.drop(entry.name for entry in chosen)
    echo(f"deleted {_counted(count)}, {_bytes(number)}")


@command
@click.argument("file", type=click.Path(path_type=Path))
@device_option
@click.option("--sign", "key", type=click.Path(path_type=Path), help="a private key (PEM) to sign the file with")
def export(file: Path, device: str | None, key: Path | None) -> None:
    """Write the programs and kernels of these versions to FILE, for `burn cache import` on machines of the same kind."""
    from burn.runtime import cache_file

    cache = Cache.from_environment()
    chosen = [entry for entry in _chosen(cache, device) if not entry.of_other_versions()]
    if not chosen:
        hint = "compile something first, with BURN_CACHE_DIR as it is now"
        raise BurnError(
            "there is nothing to export",
            [
                Problem(
                    f"{cache.directory} has no entry of these versions{f' for {device}' if device else ''}", hint=hint
                )
            ],
        )
    written = cache_file.export(cache, chosen, file, key)
    echo(f"{file}: {_counted(len(written))}, {_bytes(sum(entry.bytes for entry in written))}")


@command
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--signed-by", type=click.Path(path_type=Path), help="a public key (PEM): refuse a file without its signature"
)
def import_(file: Path, signed_by: Path | None) -> None:
    """Add the programs and kernels in FILE to the cache. Present entries stay as they are.

    FILE has machine code. Import none that you would not run."""
    from burn.runtime import cache_file, signing

    cache = Cache.from_environment()
    merged = cache_file.load(cache, existing(file), signing.required_key(signed_by), _gpus())
    if not merged.added and not merged.present:
        problems = [Problem(f"{_counted(count)} {reason}") for reason, count in merged.refused.items()]
        raise BurnError(f"{file} has nothing for this machine", problems or ["it is empty"])
    echo(f"{cache.directory}: {merged.added} new, {merged.present} already there")
    for reason, count in merged.refused.items():
        echo(f"  not imported: {_counted(count)} {reason}")


for _command, _name in ((list_, "list"), (size, "size"), (clear, "clear"), (export, "export"), (import_, "import")):
    main.add_command(_command, _name)


def _chosen(cache: Cache, device: str | None) -> list[Entry]:
    """Raises DeviceError for an unknown kind."""
    from burn.runtime import cache_file

    if device is not None and registry.find(device) is None:
        raise DeviceError(f"there is no kind of device {device!r}", [f"there are {', '.join(registry.kinds())}"])
    return [entry for entry in cache_file.entries(cache) if device in (None, entry.target.kind)]


def _gpus() -> list[tuple[str, str]]:
    """The kind and architecture of each GPU that is here."""
    from burn.runtime.device import Device, count

    kinds = [kind for kind in registry.kinds() if registry.entry(kind).own_memory]
    return [(kind, Device(kind, index).architecture) for kind in kinds for index in range(count(kind))]


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": "kernel" if entry.is_kernel else "program",
        "device": entry.target.kind,
        "architecture": entry.architecture,
        "bytes": entry.bytes,
        "used": entry.used,
        "of_other_versions": entry.of_other_versions(),
        "about": entry.about,
    }


def _counted(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _bytes(number: float) -> str:
    for unit in _UNITS[:-1]:
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} {_UNITS[-1]}"
