"""The comparison of WebGPU libraries: errors of a library's process are its line of the table."""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def arguments(timeout: float) -> Namespace:
    return Namespace(calls=1, seconds=1, timeout=timeout)


@pytest.mark.parametrize(("timeout", "text"), [(300, "m.npy"), (0.01, "no result within 0.01 s")])
def test_errors_before_the_first_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout: float, text: str
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from webgpu_peers import Run

    np.save(tmp_path / "m.burn.npy", np.ones(3))
    run = Run(("burn", tmp_path / "m.onnx"), arguments(timeout))
    run.time(timeout)
    assert text in run.line()
    assert not (tmp_path / "m.burn.npy").exists()


def test_a_process_that_ends_before_its_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for lack of memory."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import webgpu_peers

    script = tmp_path / "library.py"
    script.write_text("""print('{"first": 1, "device": "none"}', flush=True)\nimport time\ntime.sleep(600)""")
    monkeypatch.setattr(webgpu_peers, "__file__", str(script))
    run = webgpu_peers.Run(("tinygrad", tmp_path / "m.onnx"), arguments(300))
    assert run.found == {"first": 1, "device": "none"}
    os.kill(run.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, run.process.pid, os.WEXITED | os.WNOWAIT)
    run.time(300)
    assert run.line() == "tinygrad: no message"
