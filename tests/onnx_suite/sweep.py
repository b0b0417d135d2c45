"""`python -m tests.onnx_suite.sweep`: run the ONNX conformance suites, and report passes and the reasons of failures.

Examples:

    python -m tests.onnx_suite.sweep -k 'conv|pool'       only tests whose name matches
    python -m tests.onnx_suite.sweep --trace test_add     one test, in this process, with its traceback
    python -m tests.onnx_suite.sweep --update             write the failures to failing.txt
    python -m tests.onnx_suite.sweep --part 2/5           the second fifth of them
    python -m tests.onnx_suite.sweep --without-repeats    a covering subset of them
    python -m tests.onnx_suite.sweep --backend import     the import alone, without compiling
    python -m tests.onnx_suite.sweep --backend burn-reference --suite node --timeout 300   burn's interpreter of kernels
    python -m tests.onnx_suite.sweep --backend burn-xla --suite node --timeout 300         XLA, through StableHLO
    python -m tests.onnx_suite.sweep --backend wgpu --suite node --timeout 300             WebGPU, through wgpu-native
    python -m tests.onnx_suite.sweep --backend reference  the harness against onnx's own evaluator

The tests are those of the installed onnx package.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path

from .cases import CACHE, SUITES, Case, load_cases, without_repeats
from .engines import ENGINES
from .outcome import Outcome, reason, run_case, verify
from .pool import MEMORY as LIMIT
from .pool import Died, Pool

FAILING = Path(__file__).with_name("failing.txt")
PRELOAD = {
    "burn": ("burn.adapters.onnx", "burn.compiler"),
    "cuda": ("burn.adapters.onnx", "burn.codegen.triton.backend"),
    "burn-reference": ("burn.adapters.onnx", "burn.codegen.reference.loader"),
    "burn-xla": ("burn.adapters.onnx", "burn.codegen.xla.loader"),
    "wgpu": ("burn.adapters.onnx", "burn.codegen.wgsl.backend"),
    "import": ("burn.importers.onnx",),
    "reference": ("onnx.reference",),
    "onnxruntime": (),  # it starts threads when imported
}
MEMORY = dict.fromkeys(ENGINES, LIMIT) | {
    "cuda": 0,
    "wgpu": 0,
    "burn-xla": 0,
}  # drivers reserve more addresses than there is memory


def sweep(cases: list[Case], engine: str = "burn", jobs: int = 2, timeout: float = 60.0) -> list[Outcome]:
    """Run the cases in worker processes; outcomes are in the order of the cases."""
    outcomes: dict[int, Outcome] = {}
    start, shown = time.monotonic(), 0.0
    pool: Pool[tuple[str, Case], Outcome] = Pool(run_case, jobs, timeout, PRELOAD[engine], MEMORY[engine])
    for index, answer in pool.run([(engine, case) for case in cases]):
        if isinstance(answer, Died):
            case = cases[index]
            answer = Outcome(case.name, case.suite, case.family, answer.reason, [answer.message])
        outcomes[index] = answer
        now = time.monotonic() - start
        if sys.stderr.isatty() and now - shown > 0.5:
            shown = now
            passed = sum(outcome.passed for outcome in outcomes.values())
            print(f"\r{len(outcomes)}/{len(cases)} run, {passed} passed, {now:.0f} s", end="", file=sys.stderr)
    if shown:
        print(file=sys.stderr)
    return [outcomes[index] for index in range(len(cases))]


def read_failing() -> dict[str, str]:
    """The tests that are known to fail, and why."""
    lines = FAILING.read_text().splitlines() if FAILING.exists() else []
    pairs = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    return {name: category.strip() for name, category in pairs}


def write_failing(outcomes: list[Outcome]) -> None:
    """Replace the entries of the tests that were run; the others stay."""
    known = read_failing()
    for outcome in outcomes:
        known.pop(outcome.name, None)
        if not outcome.passed:
            known[outcome.name] = outcome.category
    lines = [f"{name} {category}" for name, category in sorted(known.items())]
    head = "# Conformance tests that fail: name, reason. Written by `python -m tests.onnx_suite.sweep --update`.\n"
    FAILING.write_text(head + "".join(f"{line}\n" for line in lines))


def report(outcomes: list[Outcome], reasons: int = 40) -> str:
    """Passed and total by suite and by operator, then the most common reasons for failure."""
    lines: list[str] = []
    families: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        families[outcome.family].append(outcome)
    lines.append(f"{'passed':>7} {'total':>6}  operator")
    for family, members in sorted(families.items()):
        failed = [outcome for outcome in members if not outcome.passed]
        first = f"  {failed[0].category}: {failed[0].messages[0].splitlines()[0][:110]}" if failed else ""
        lines.append(f"{len(members) - len(failed):7} {len(members):6}  {family:30}{first}")
    groups: dict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        for text in dict.fromkeys(reason(message.splitlines()[0]) for message in outcome.messages if message):
            groups[f"{outcome.category}: {text}"].append(outcome.name)
    if groups:
        lines += ["", f"{'tests':>6}  reason (up to 3 examples below each)"]
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
    for text, names in ranked[:reasons]:
        lines += [f"{len(names):6}  {text}", f"        {', '.join(names[:3])}"]
    if len(ranked) > reasons:
        lines.append(f"        ... and {len(ranked) - reasons} more reasons")
    lines += ["", f"{'passed':>7} {'total':>6}  suite"]
    for suite in [*dict.fromkeys(outcome.suite for outcome in outcomes), "all"]:
        members = [outcome for outcome in outcomes if suite in (outcome.suite, "all")]
        lines.append(f"{sum(o.passed for o in members):7} {len(members):6}  {suite}")
    categories = Counter(outcome.category for outcome in outcomes if not outcome.passed)
    lines.append("failed: " + (", ".join(f"{count} {name}" for name, count in categories.most_common()) or "none"))
    return "\n".join(lines)


def drift(outcomes: list[Outcome]) -> tuple[list[Outcome], list[str]]:
    """The failures that failing.txt does not list, and the passes that it does."""
    known = read_failing()
    new = [outcome for outcome in outcomes if not outcome.passed and outcome.name not in known]
    return new, [outcome.name for outcome in outcomes if outcome.passed and outcome.name in known]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.onnx_suite.sweep", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("-k", metavar="REGEX", default="", help="only tests whose name or operator matches")
    parser.add_argument("-j", type=int, default=2, help="worker processes")
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=list(SUITES))
    parser.add_argument("--part", metavar="K/N", default="1/1", help="only every Nth test, from the Kth on")
    parser.add_argument("--without-repeats", action="store_true", help="only a covering subset of the tests")
    parser.add_argument("--backend", choices=ENGINES, default="burn")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one test")
    parser.add_argument("--reasons", type=int, default=40, help="how many reasons for failure to print")
    parser.add_argument("--failing", action="store_true", help="only tests that failing.txt lists")
    parser.add_argument("--list", action="store_true", help="print a line for every failure")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="print the N slowest tests")
    parser.add_argument("--trace", metavar="TEST", help="run one test in this process and show its traceback")
    parser.add_argument("--update", action="store_true", help="write the failures to failing.txt")
    parser.add_argument("--json", type=Path, help="where to write the outcomes")
    args = parser.parse_args()
    cases = load_cases(tuple(args.suite))
    if args.trace:
        return trace(next((case for case in cases if case.name == args.trace), None), args.trace, args.backend)
    pattern, known = re.compile(args.k), read_failing()
    cases = [case for case in cases if pattern.search(case.name) or pattern.search(case.family)]
    if args.failing:
        cases = [case for case in cases if case.name in known]
    if args.without_repeats:
        cases = without_repeats(cases)
    part, parts = map(int, args.part.split("/"))
    cases = cases[part - 1 :: parts]
    if not cases:
        parser.error("no test matches")
    start = time.monotonic()
    outcomes = sweep(cases, args.backend, args.j, args.timeout)
    print(report(outcomes, args.reasons))
    if args.list:
        print("\n".join(f"{o.name} {o.category}: {'; '.join(o.messages)}" for o in outcomes if not o.passed))
    for outcome in sorted(outcomes, key=lambda o: -o.seconds)[: args.slowest]:
        print(f"{outcome.seconds:7.2f} s  {outcome.name}")
    path = args.json or CACHE / f"outcomes-{args.backend}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    print(f"{time.monotonic() - start:.0f} s; outcomes in {path}")
    if args.update:
        write_failing(outcomes)
    elif args.backend == "burn":
        new, mended = drift(outcomes)
        if new:
            print(f"not listed in failing.txt: {len(new)}: {', '.join(outcome.name for outcome in new[:20])}")
        if mended:
            print(f"listed in failing.txt, but pass: {len(mended)}: {', '.join(mended[:20])}")
        return int(bool(new or mended))
    return 0


def trace(case: Case | None, name: str, engine: str) -> int:
    """Run one case here, so that its exception and anything printed are seen, and a debugger can be attached."""
    from onnx import load_from_string, printer

    if case is None:
        print(f"no test is named {name}", file=sys.stderr)
        return 2
    print(printer.to_text(load_from_string(case.model))[:4000])
    verify(case, ENGINES[engine](case.model))
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
