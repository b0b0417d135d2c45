"""Engines on one model: their results compared, their runs timed alternately."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from burn.bench.interleave import Plan, interleave
from burn.bench.peers import HOST, PEERS, Where
from burn.bench.report import Result, Row, difference
from burn.bench.subject import Feeds, Subject


def compare(
    subject: Subject, peers: Sequence[str], reference: str, threads: int, plan: Plan, where: Where = HOST
) -> Result:
    """Load every engine of `peers`, compare the results, and alternate timed runs. Ratios are to the time of `reference`. An
    engine's error goes into its row."""
    rows = {name: Row(name, absent=PEERS[name].lacks(subject, where)) for name in peers}
    engines: dict[str, Callable[[], Feeds]] = {}
    outputs: dict[str, Feeds] = {}
    for name, row in rows.items():
        if row.absent:
            continue
        start = time.perf_counter()
        try:
            run = PEERS[name].load(subject, threads, None, where)
            row.load = time.perf_counter() - start
            outputs[name] = {key: value.copy() for key, value in run(subject.feeds).items()}
            engines[name] = partial(run, subject.feeds)
        except Exception as error:  # whatever a peer raises belongs in its row
            row.error = f"{type(error).__name__}: {error}".splitlines()[0]
    for name in engines:
        other = next((peer for peer in outputs if peer not in (name, "burn")), None)
        if other is not None:
            try:
                rows[name].difference = difference(outputs[name], outputs[other])
            except ValueError as error:
                rows[name].error = f"not the same as {other}: {error}"
    engines = {name: run for name, run in engines.items() if not rows[name].error}
    measured = interleave(engines, plan)
    for name, timing in measured.timings.items():
        rows[name].timing = timing
        rows[name].ratio = timing.ratio(measured.timings[reference]) if reference in measured.timings else math.nan
    return Result(subject.label, str(subject.path), list(rows.values()), measured.others, measured.restless)
