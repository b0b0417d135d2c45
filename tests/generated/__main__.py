"""Holds a refactoring to the code it had: digests of the code generated for a fixed set of programs.

    python -m tests.generated --write before.json --texts before     # before the change
    python -m tests.generated --compare before.json --texts after    # after it; then diff -r before after

Exits with 1 where anything differs. Compare on one machine: constants that the compiler folds are computed there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.generated.printed import DEVICES, digests, printed
from tests.generated.programs import PROGRAMS

Found = dict[str, dict[str, str]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "tests.generated", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FILE", help="write the digests")
    action.add_argument("--compare", type=Path, metavar="FILE", help="compare with digests that were written before")
    parser.add_argument("--texts", type=Path, metavar="FOLDER", help="write all texts there")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--devices", nargs="+", choices=DEVICES, default=list(DEVICES), metavar="NAME")
    given = parser.parse_args(arguments)
    os.environ["BURN_CACHE_SIZE"] = "0"
    found = {
        f"{program} {device}": _one(program, device, given.texts)
        for program in given.programs
        for device in given.devices
    }
    count = sum(map(len, found.values()))
    if given.write:
        given.write.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{count} texts of {len(found)} programs written")
        return 0
    before = {name: texts for name, texts in json.loads(given.compare.read_text()).items() if name in found}
    differing = differences(before, found)
    print(*differing, f"{count} texts of {len(found)} programs, {len(differing)} differ", sep="\n")
    return bool(differing)


def _one(program: str, device: str, texts: Path | None) -> dict[str, str]:
    made = printed(PROGRAMS[program](), device)
    if texts:
        folder = texts / program / device
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (folder / name).write_text(text)
    return digests(made)


def differences(before: Found, now: Found) -> list[str]:
    """One line for each text that changed, came or went."""
    lines = []
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name, {}), now.get(name, {})
        for text in dict.fromkeys((*old, *new)):
            if old.get(text) != new.get(text):
                how = "new" if text not in old else "gone" if text not in new else "differs"
                lines.append(f"{name}: {text} {how}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
