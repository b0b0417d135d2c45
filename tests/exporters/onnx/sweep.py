"""`python -m tests.exporters.onnx.sweep`: every conformance test that burn imports, exported and run by ONNX Runtime.

Usage:

    python -m tests.exporters.onnx.sweep -k 'conv|pool'      only tests whose name or operator matches
    python -m tests.exporters.onnx.sweep --opset 23          export at another opset (21 by default)
    python -m tests.exporters.onnx.sweep --trace test_add    one test, in this process, with its graph and traceback
    python -m tests.exporters.onnx.sweep --update            write the failures to failing.txt

Tests that burn does not import are left out. The reasons are:

    refused       it cannot be exported
    invalid       it does not pass ONNX's checker
    unsupported   ONNX Runtime has no kernel for it
    load          ONNX Runtime refuses it for another reason
    run           ONNX Runtime fails to run it

Wrong outputs have the reasons of `tests.onnx_suite.compare`.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from burn.errors import BurnError
from tests.onnx_suite.cases import SUITES, Case, load_cases
from tests.onnx_suite.compare import Mismatch
from tests.onnx_suite.outcome import Outcome, reason, verify
from tests.onnx_suite.pool import Died, Pool
from tests.releases import release

FAILING = Path(__file__).with_name("failing.txt")
OPSET = 21
_TYPES = onnx.TensorProto
FOREIGN = {
    _TYPES.BFLOAT16, _TYPES.FLOAT8E4M3FN, _TYPES.FLOAT8E4M3FNUZ, _TYPES.FLOAT8E5M2, _TYPES.FLOAT8E5M2FNUZ,
    _TYPES.FLOAT8E8M0, _TYPES.FLOAT4E2M1, _TYPES.INT4, _TYPES.UINT4, _TYPES.INT2, _TYPES.UINT2,
}  # fmt: skip
"""Element types that ONNX Runtime does not exchange with numpy."""


def run_case(task: tuple[int, Case]) -> Outcome:
    """Import, export, check, run in ONNX Runtime and compare; the category `import` is for what burn does not import."""
    opset, case = task
    outcome = Outcome(case.name, case.suite, case.family)
    start, stage = time.perf_counter(), "import"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from burn.exporters.onnx import export
            from burn.importers.onnx import import_onnx

            program = import_onnx(case.model)
            stage = "refused"
            model = export(program, opset)
            stage = "invalid"
            onnx.checker.check_model(model, full_check=True)
            stage = "load"
            run = ort_run(model, onnx.load_from_string(case.model))
            stage = "run"
            verify(case, run)
        except Mismatch as error:
            outcome.category, outcome.messages = error.kind, [str(error)]
        except Exception as error:
            outcome.category, outcome.messages = stage, _messages(error)
            if stage == "load" and "NOT_IMPLEMENTED" in str(error):
                outcome.category = "unsupported"
            if stage == "refused" and not isinstance(error, BurnError):
                outcome.category = "error"
    outcome.seconds = time.perf_counter() - start
    return outcome


def ort_session(model: onnx.ModelProto) -> Any:
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # Before 1.31 this optimiser makes nodes of float64 that have no kernel.
    left_out = ["QuickGeluFusion"] if release("onnxruntime") < (1, 31) else []
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"], disabled_optimizers=left_out
    )


def ort_run(model: onnx.ModelProto, original: onnx.ModelProto) -> Callable[[list[Any]], list[Any]]:
    """A function of the original's inputs, in their order. Types that ONNX Runtime cannot exchange with numpy go in and
    come out as float32, which holds all of their values."""
    kinds = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)}
    outputs = [v.name for v in model.graph.output]
    session = ort_session(_with_numpy_types(model))
    names = [value.name for value in session.get_inputs()]
    initialised = {t.name for t in original.graph.initializer}
    order = [v.name for v in original.graph.input if v.name not in initialised]

    def run(inputs: list[Any]) -> list[Any]:
        given = dict(zip(order, inputs, strict=False))
        feeds = {n: given[n].astype(np.float32) if kinds[n] in FOREIGN else given[n] for n in names}
        results = session.run(None, {n: np.ascontiguousarray(a).reshape(np.shape(a)) for n, a in feeds.items()})
        return [
            r.astype(onnx.helper.tensor_dtype_to_np_dtype(kinds[n])) if kinds[n] in FOREIGN else r
            for n, r in zip(outputs, results, strict=True)
        ]

    return run


def _with_numpy_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model between casts from and to float32, for the inputs and outputs that need them."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    inner = {
        v.name: f"{v.name}/inner" for v in (*graph.input, *graph.output) if v.type.tensor_type.elem_type in FOREIGN
    }
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [inner.get(n, n) for n in side]
    for value in graph.input:
        if value.name in inner:
            kind = value.type.tensor_type.elem_type
            graph.node.insert(0, onnx.helper.make_node("Cast", [value.name], [inner[value.name]], to=kind))
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for value in graph.output:
        if value.name in inner:
            to = onnx.TensorProto.FLOAT
            graph.node.append(onnx.helper.make_node("Cast", [inner[value.name]], [value.name], to=to))
            value.type.tensor_type.elem_type = to
    return changed


def _messages(error: Exception) -> list[str]:
    if isinstance(error, BurnError):
        return [str(p) for p in error.problems] or [error.summary]
    import traceback

    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/burn/" in f.filename]
    where = f" @{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return [f"{type(error).__name__}: {lines[0] if lines else ''}{where}"]


def sweep(cases: Sequence[Case], opset: int = OPSET, jobs: int = 2, timeout: float = 60.0) -> list[Outcome]:
    """The outcomes of the cases that burn imports."""
    pool: Pool[tuple[int, Case], Outcome] = Pool(
        run_case, jobs, timeout, ("burn.exporters.onnx", "burn.importers.onnx")
    )
    outcomes: dict[int, Outcome] = {}
    for index, answer in pool.run([(opset, case) for case in cases]):
        if isinstance(answer, Died):
            case = cases[index]
            answer = Outcome(case.name, case.suite, case.family, answer.reason, [answer.message])
        outcomes[index] = answer
    return [outcomes[i] for i in range(len(cases)) if outcomes[i].category != "import"]


def read_failing() -> dict[str, str]:
    lines = FAILING.read_text().splitlines() if FAILING.exists() else []
    pairs = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    return {name: category.strip() for name, category in pairs}


def write_failing(outcomes: Sequence[Outcome]) -> None:
    """Replace the entries of the tests that were run; the others stay."""
    known = read_failing()
    for outcome in outcomes:
        known.pop(outcome.name, None)
        if not outcome.passed:
            known[outcome.name] = outcome.category
    head = (
        f"# Conformance tests that do not survive the way out (opset {OPSET}): name, reason.\n"
        "# Written by `python -m tests.exporters.onnx.sweep --update`.\n"
    )
    FAILING.write_text(head + "".join(f"{name} {category}\n" for name, category in sorted(known.items())))


def drift(outcomes: Sequence[Outcome]) -> list[str]:
    """Differences from failing.txt: new failures, and listed tests that pass."""
    known = read_failing()
    new = [f"{o.name} fails: {o.category}: {o.messages}" for o in outcomes if not o.passed and o.name not in known]
    return new + [f"{o.name} passes, but is listed" for o in outcomes if o.passed and o.name in known]


def report(outcomes: Sequence[Outcome]) -> str:
    groups: dict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        for text in dict.fromkeys(reason(m.splitlines()[0]) for m in outcome.messages if m):
            groups[f"{outcome.category}: {text}"].append(outcome.name)
    lines = []
    for text, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        lines += [f"{len(names):6}  {text}", f"        {', '.join(names[:4])}"]
    lines += ["", f"{'passed':>7} {'total':>6}  suite"]
    for suite in [*dict.fromkeys(o.suite for o in outcomes), "all"]:
        members = [o for o in outcomes if suite in (o.suite, "all")]
        lines.append(f"{sum(o.passed for o in members):7} {len(members):6}  {suite}")
    counts = Counter(o.category for o in outcomes if not o.passed)
    return "\n".join([*lines, "failed: " + (", ".join(f"{n} {c}" for c, n in counts.most_common()) or "none")])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exporters.onnx.sweep")
    parser.add_argument("-k", metavar="REGEX", default="", help="only tests whose name or operator matches")
    parser.add_argument("-j", type=int, default=2, help="worker processes")
    parser.add_argument("--opset", type=int, default=OPSET)
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=list(SUITES))
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth test")
    parser.add_argument("--trace", metavar="TEST", help="run one test in this process")
    parser.add_argument("--update", action="store_true", help="write the failures to failing.txt")
    args = parser.parse_args()
    cases = load_cases(tuple(args.suite))
    if args.trace:
        return trace(next(c for c in cases if c.name == args.trace), args.opset)
    pattern = re.compile(args.k)
    cases = [c for c in cases if pattern.search(c.name) or pattern.search(c.family)]
    cases = cases[:: args.every]
    start = time.monotonic()
    outcomes = sweep(cases, args.opset, args.j)
    print(report(outcomes))
    print(f"{time.monotonic() - start:.0f} s; {len(cases) - len(outcomes)} tests are not imported")
    if args.update:
        write_failing(outcomes)
        return 0
    if args.opset != OPSET:
        return 0
    differences = drift(outcomes)
    print("\n".join(differences))
    return int(bool(differences))


def trace(case: Case, opset: int) -> int:
    from burn.dialect.text import to_text
    from burn.exporters.onnx import export
    from burn.importers.onnx import import_onnx

    program = import_onnx(case.model)
    print(to_text(program)[:6000])
    model = export(program, opset)
    print(onnx.printer.to_text(model)[:8000])
    onnx.checker.check_model(model, full_check=True)
    verify(case, ort_run(model, onnx.load_from_string(case.model)))
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
