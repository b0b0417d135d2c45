"""The first use of burn, by several threads at once."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import threading, sys
import burn
sys.setswitchinterval(1e-6)
problems, ready = [], threading.Barrier(8)

def work(number):
    ready.wait()
    try:
        x = burn.arange(5.0) + float(number)
        assert float(burn.exp(x * 0.0).sum()) == 5
    except BaseException as error:
        problems.append(repr(error))

threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
sys.exit("; ".join(problems) or 0)
"""


def test_the_dialect_is_loaded_once_and_whole() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
