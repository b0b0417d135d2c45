"""`python -m tests.optimised`: see the package."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.optimised.tools import Unfit
from tests.optimised.ways import WAYS, cases, differences, write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.optimised", description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of names: model/exporter/optimiser/quantiser")
    parser.add_argument("--way", action="append", choices=sorted(WAYS), help="only these; all but compile by default")
    parser.add_argument("--count", type=int, help="this many, drawn by --seed")
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    chosen = [c for c in cases() if not given.names or c.name.startswith(tuple(given.names))]
    if given.count:
        chosen = random.Random(given.seed).sample(chosen, min(given.count, len(chosen)))
    if given.list:
        print(*(c.name for c in chosen), sep="\n")
        return 0
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen:
            try:
                path = write(case, Path(folder))
            except Unfit as reason:
                counts["", "not made"] += 1
                print(f"{case.name}: {reason}", flush=True)
                continue
            for way, error, told in differences(case, path, given.way or [w for w in WAYS if w != "compile"]):
                counts[way, "fails" if told else "agrees"] += 1
                print(f"{case.name} {way}: {told or f'agrees, {error:.1e}'}", flush=True)
    for (way, state), count in sorted(counts.items()):
        print(f"{way or 'tools'} {state}: {count}")
    return int(any(state == "fails" for _, state in counts))


if __name__ == "__main__":
    sys.exit(main())
