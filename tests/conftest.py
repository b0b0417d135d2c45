"""Fixtures of every test, which starts with an empty cache of compiled programs and with generators of fixed seeds."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn.runtime import _native
from burn.runtime.random import process
from tests.covering import mark_rest

os.environ["BURN_CACHE_SIZE"] = "0"
LONG = ("tests/typing/", "tests/docs/test_pages.py", "tests/onnx_suite/test_suite.py", "tests/deploy/test_gpus.py")
"""Tests of up to a minute each. At the end of a run, one of them would leave the other processes without work."""
FORKING = ("tests/fuzz/test_onnx.py", "tests/fuzz/test_spoiled.py", "tests/onnx_suite/test_harness.py")
"""Tests whose workers are forked while this process has not used JAX. Later each worker imports everything anew."""
SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text().splitlines())
"""Tests that take seconds and have siblings of their kind in the default run."""

FIRST = (*FORKING, *LONG)

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # PyTorch's: each worker has a CPU, and threads that wait for others spin


OPTIMISED = (
    "tests/codegen/test_",
    "tests/deploy/",
    "tests/e2e/",
    "tests/fuzz/test_onnx.py::test_graphs_compute_what_onnx_runtime_computes[load]",
    "tests/onnx_suite/test_suite.py::test_outcomes_are_those_listed[1]",
    "tests/onnx_suite/test_suite.py::test_outcomes_are_those_listed[3]",
    "tests/onnx_suite/test_suite.py::test_all",
)
UNOPTIMISED = (
    "tests/codegen/test_autotuning.py",
    "tests/codegen/test_autotuning_forms.py",
    "tests/codegen/test_together.py",
)
"""Tests whose programs go through LLVM's IR passes, and exceptions. Those that compile much take 30 % less CPU time without
optimization. BURN_OPTIMIZE=speed in the environment optimizes for all."""
CHOSEN = "BURN_OPTIMIZE" in os.environ
SWEEP = any(name in os.environ for name in ("BURN_SWEEP", "BURN_FUZZ_GRAPHS"))
"""Sweeps of more cases than a usual run has go through the passes."""
AUTOTUNE = os.environ.get("BURN_AUTOTUNE")

with suppress(ImportError):  # tests on a machine with a GPU do without
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "fixed", derandomize=not SWEEP, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("fixed")  # examples are those of the last run, however busy the machine is


THREADS = _native.num_threads()
CPUS = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def start_process() -> None:
    """Sets the seeds of the process's generators, its number of threads and its CPUs. Otherwise they depend on the tests that ran
    before in the process, and burn's generator starts from a new seed in each process."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    process.reset(0)
    if hasattr(torch := sys.modules.get("torch"), "default_generator"):
        torch.default_generator.manual_seed(0)
    if _native.num_threads() != THREADS:
        _native.set_num_threads(THREADS)
    if CPUS and os.sched_getaffinity(0) != CPUS:
        os.sched_setaffinity(0, CPUS)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    start_process()
    if not CHOSEN:
        optimised = item.nodeid.startswith(OPTIMISED) and not item.nodeid.startswith(UNOPTIMISED)
        os.environ["BURN_OPTIMIZE"] = "speed" if optimised or SWEEP else "none"
    if AUTOTUNE:
        os.environ["BURN_AUTOTUNE"] = "off" if item.get_closest_marker("untuned") else AUTOTUNE


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, which is empty."""
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("BURN_CACHE_SIZE")
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def common_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all processes of this test run share, and no other run. It holds slow builds that are not the subject of a
    test, such as the C runtime."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "common-cache"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Almost everything that is made while tests are collected stays, so that the garbage collector would look at all of it again
    and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before `-m` is applied."""
    mark_rest(items)
    for item in items:
        if item.nodeid in SLOW:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Freezes the objects that exist by now, so that garbage collections skip them."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and bridge.backends_are_initialized():
        raise pytest.UsageError("a test module uses JAX while it is imported: workers can no longer be forked")
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
