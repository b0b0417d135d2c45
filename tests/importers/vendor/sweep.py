"""Random cases of vendors' operators against ONNX Runtime.

python -m tests.importers.vendor.sweep [OP ...] [--count N] [--seed S] [--compiled]
"""

from __future__ import annotations

import argparse
import zlib
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from tests.fuzz.runner import Outcome
from tests.importers.vendor.case import DRAWERS, Case, Draw, compiled, judge

SIZES = ("fixed", "fixed", "named", "apart")

for _path in sorted(Path(__file__).parent.glob("draws_*.py")):
    import_module(f"tests.importers.vendor.{_path.stem}")


def drawn(op: str, seed: int) -> Case:
    """A case of the operator, which depends on the seed alone. Operators with the same operands share a drawer."""
    return replace(DRAWERS[op](Draw(zlib.crc32(op.encode()) * 1_000_003 + seed)), op=op)


def one(op: str, seed: int, with_compiler: bool = False) -> Outcome:
    return judge(drawn(op, seed), SIZES[seed % len(SIZES)], compiled if with_compiler else None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.importers.vendor.sweep")
    parser.add_argument("ops", nargs="*", help="all by default")
    parser.add_argument("--count", type=int, default=50, help="cases of each operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", action="store_true", help="run compiled code, not the interpreter of tests")
    parser.add_argument("--verbose", action="store_true", help="print what was refused or skipped, too")
    options = parser.parse_args()
    failed = 0
    for op in options.ops or sorted(DRAWERS):
        counts: Counter[str] = Counter()
        shown = 0
        for seed in range(options.seed, options.seed + options.count):
            outcome = one(op, seed, options.compiled)
            counts[outcome.kind] += 1
            failed += outcome.failed
            if (outcome.failed and shown < 3) or (options.verbose and outcome.kind in ("refused", "skipped")):
                shown += outcome.failed
                print(f"--- {op} seed {seed}: {outcome.kind}\n{outcome.detail[:1500]}", flush=True)
        print(op, dict(counts), flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
