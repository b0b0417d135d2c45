"""`python -m tests.fuzz.coverage TARGET`: see the package. Exit status 0, or what libFuzzer says of a failure."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path
from types import FunctionType

from tests.fuzz.coverage.targets import TARGETS, checked

MEMORY_MB = 4096  # of the process: nothing in these files needs as much
TIMEOUT = 120  # seconds for one file, on a busy machine
MOST_BYTES = 8192


def _functions(prefix: str) -> list[FunctionType]:
    """Those of a package's modules that are imported, methods among them. They cannot be instrumented while they are imported, as
    Atheris does elsewhere: an editable installation has a finder of its own."""
    found: dict[int, FunctionType] = {}
    for name, module in list(sys.modules.items()):
        if name == prefix or name.startswith(f"{prefix}."):
            owners = [module, *(value for value in vars(module).values() if isinstance(value, type))]
            for value in (each for owner in owners for each in list(vars(owner).values())):
                inner = getattr(value, "__func__", getattr(value, "fget", value))
                if isinstance(inner, FunctionType) and inner.__module__ == name:
                    found[id(inner)] = inner
    return list(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.coverage", allow_abbrev=False)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60, help="how long (default 60)")
    parser.add_argument("--runs", type=int, default=-1, help="at most so many files are read")
    parser.add_argument("--seed", type=int, help="of the fuzzer; a new one each time by default")
    parser.add_argument("--corpus", type=Path, help="a folder where files that reach new branches are kept")
    parser.add_argument("--file", type=Path, help="reads this file only")
    options = parser.parse_args()
    target = TARGETS[options.target]
    if options.file is not None:
        checked(target, options.file.read_bytes())
        return 0
    import atheris

    seeds = target.seeds()
    for seed in seeds:  # imports what is imported late
        checked(target, seed)
    functions = [function for name in target.modules for function in _functions(name)]
    for function in functions:
        atheris.instrument_func(function)  # type: ignore[attr-defined]
    print(f"the branches of {len(functions)} functions are followed")
    folder = Path(tempfile.mkdtemp(prefix="burn-fuzz-"))
    (folder / "seeds").mkdir()
    for number, seed in enumerate(seeds):
        (folder / "seeds" / str(number)).write_bytes(seed)
    words = "".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in target.words)
    (folder / "words").write_text(words)
    first = random.SystemRandom().randrange(1, 1 << 31) if options.seed is None else options.seed
    print(f"seed {first}", flush=True)
    corpus = options.corpus or folder / "corpus"
    corpus.mkdir(exist_ok=True)
    settings = {
        "max_total_time": options.seconds,
        "runs": options.runs,
        "seed": first,
        "max_len": max(MOST_BYTES, *map(len, seeds)),
        "rss_limit_mb": MEMORY_MB,
        "timeout": TIMEOUT,
        "artifact_prefix": f"{os.environ.get('BURN_FUZZ_FOUND', folder)}/",
        "print_final_stats": 1,
    }
    words_ = [f"-{name}={value}" for name, value in settings.items()] + [f"-dict={folder / 'words'}"] * bool(words)
    atheris.Setup([sys.argv[0], *words_, str(corpus), str(folder / "seeds")], lambda data: checked(target, data))
    atheris.Fuzz()
    return 0


sys.exit(main())
