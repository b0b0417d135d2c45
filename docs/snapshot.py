"""Writes docs/api.txt: the signatures of all public names, the options of the commands, and the versions of file formats.

    python docs/snapshot.py            # after a deliberate change

tests/docs/test_snapshot.py fails if the code and the file differ. So a review sees each change of the public interface.
docs/dev/versions.md says which changes a release may have.
"""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from surface import Entry, aliases, entries, members, signature_of  # noqa: E402

FILE = HERE / "api.txt"
HEAD = "# Written by docs/snapshot.py. A change of this file is a change of the public interface: see docs/dev/versions.md.\n"


def snapshot() -> str:
    """The text of docs/api.txt."""
    names = [line for public in sorted(entries(), key=lambda e: e.name) for line in described(public)]
    second = [f"{name} = {home}" for name, home in sorted(aliases().items())]
    return "\n".join([HEAD, *names, "", *second, "", *commands(), "", *formats(), ""])


def described(public: Entry) -> Iterator[str]:
    """A name and its signature; below a class its bases' names, methods and properties."""
    value = public.value
    if public.kind == "data":
        yield f"{public.name}: {_value(value)}"
        return
    if public.kind == "function":
        yield f"{public.name}{signature_of(value)}"
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {public.name}{signature_of(value).removesuffix(' -> None')}" + (f" <- {bases}" if bases else "")
    if issubclass(value, enum.Enum):
        yield from (f"    {member.name}" for member in value)
    for name, member in sorted(members(value).items()):
        function = getattr(member, "__func__", member)
        yield f"    {name}{signature_of(function) if inspect.isfunction(function) else ''}"


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple, dict)) else str(value).replace("typing.", "")


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    from burn.cli.main import COMMANDS

    for name, (path, _) in sorted(COMMANDS.items()):
        yield from _command(import_module(path).main, f"burn {name}")


def _command(command: click.Command, name: str) -> Iterator[str]:
    yield f"$ {name} {' '.join(sorted(_parameter(p) for p in command.params))}".rstrip()
    for part, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _command(inner, f"{name} {part}")


def _parameter(parameter: click.Parameter) -> str:
    return parameter.human_readable_name if isinstance(parameter, click.Argument) else "/".join(parameter.opts)


def formats() -> list[str]:
    """The versions of the files that burn writes."""
    from burn.runtime import package
    from burn.train import checkpoints

    return [f"compiled programs (.burn): {package.VERSION}", f"checkpoints: {checkpoints.FORMAT}"]


if __name__ == "__main__":
    FILE.write_text(snapshot())
