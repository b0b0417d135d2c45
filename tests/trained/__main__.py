"""`python -m tests.trained`: fetches packages that ship trained .onnx files, and runs every file in every way.

Examples:

    python -m tests.trained                              # all; files with a stored result are skipped
    python -m tests.trained -k 'silero|ocr' --again      # these, anew
    python -m tests.trained --ways load --jobs 2
    python -m tests.trained --table                      # a summary of the results

Results are stored in the cache folder.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.onnx_suite.pool import Died, Pool
from tests.trained.fetch import models
from tests.trained.packages import NAMED, OTHERS
from tests.trained.ways import WAYS, run

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "burn-trained"
MEMORY = 24 << 30
TIMEOUT = 600.0


def quietly(task: tuple[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    return run(*task)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", help="a regular expression that a file's path holds")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where models are kept (default {CACHE})")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds for one way of a file")
    parser.add_argument("--again", action="store_true", help="also what has a result")
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    ways = tuple(given.ways.split(","))
    kept = given.cache / "results.jsonl"
    results = _read(kept)
    files = _files(given.cache, given.k)
    if not given.table:
        tasks = [
            (str(f), (w,)) for f in files for w in ways if given.again or (_name(f, given.cache), w) not in results
        ]
        print(f"{len(files)} files, {len(tasks)} runs", flush=True)
        pool = Pool(quietly, given.jobs, given.timeout, ("burn.compiler",), MEMORY)
        for index, made in pool.run(tasks):
            file, (way,) = tasks[index]
            died: list[dict[str, Any]] = [{"file": file, "way": way, "right": False, "reason": f"{made}"}]
            for row in died if isinstance(made, Died) else made:
                row["file"] = _name(Path(row["file"]), given.cache)
                results[row["file"], row["way"]] = row
                with kept.open("a") as out:
                    out.write(json.dumps(row) + "\n")
                print(_line(row), flush=True)
    _table(results, [_name(f, given.cache) for f in files], ways)
    return 0


def _files(cache: Path, pattern: str) -> list[Path]:
    found = []
    for requirement in (*NAMED, *OTHERS):
        try:
            found += models(requirement, cache)
        except (RuntimeError, OSError) as error:
            print(f"{requirement}: {error}", file=sys.stderr)
    return sorted((f for f in found if re.search(pattern, str(f))), key=lambda f: (f.stat().st_size, f))


def _name(file: Path, cache: Path) -> str:
    return str(file.relative_to(cache)) if file.is_absolute() else str(file)


def _read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {(r["file"], r["way"]): r for r in map(json.loads, lines)}


def _line(row: dict[str, Any]) -> str:
    if row.get("right"):
        said = f"right at {row['sizes']} sizes, differs by {row['difference']:.1e}, {row['seconds']} s"
    else:
        said = row.get("skipped") or row["reason"]
    return f"{row['file']}  {row['way']}: {said}"


def _table(results: dict[tuple[str, str], dict[str, Any]], files: list[str], ways: tuple[str, ...]) -> None:
    """Counts of passes for the named packages and the others, in each way; then the reasons of failures."""
    for title, packages in (("packages named", NAMED), ("others", OTHERS)):
        own = [f for f in files if f.split("/")[0] in packages]
        for way in ways:
            rows = [results[f, way] for f in own if (f, way) in results]
            run_ = [r for r in rows if "skipped" not in r]
            right = sum(r["right"] for r in run_)
            share = f"{right / len(run_):.1%}" if run_ else "-"
            print(
                f"{title:15} {way:8} {right} of {len(run_)} right ({share}); {len(rows) - len(run_)} not run, of {len(own)}"
            )
    reasons: dict[str, list[str]] = defaultdict(list)
    for (file, way), row in results.items():
        if file in files and way in ways and not row.get("right"):
            reasons[row.get("skipped") or row["reason"]].append(f"{file} ({way})")
    for reason, where in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"\n{reason}\n  " + "\n  ".join(where))


if __name__ == "__main__":
    sys.exit(main())
