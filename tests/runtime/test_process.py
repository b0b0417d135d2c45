"""Process events around runs: signals, forks, and exit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

ENDLESS = """
import burn
import numpy as np

def forever(x):
    return burn.while_loop(lambda y: (y < 2.0).all(), lambda y: burn.minimum(y, x), x)

endless = burn.compile(forever, ("float32[3]",))
x = np.zeros(3, np.float32)
"""

BUSY = """
import threading, time
import burn
import numpy as np

x = np.ones((2000, 64), np.float32)
product = burn.compile(lambda x, y: burn.relu(x @ y).cumsum(0), ("float32[n,64]", "float32[64,64]"))
def work():
    while True:
        product(x, x[:64])
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
"""


def run(script: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=timeout)


def test_ctrl_c_ends_a_run() -> None:
    script = (
        ENDLESS
        + "try:\n    print('ready', flush=True)\n    endless(x)\nexcept KeyboardInterrupt:\n    print('ended')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert (out, process.returncode) == ("ended\n", 0)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_kernel_polls_for_signals(threads: int) -> None:
    """A run of one launch: handlers that are called before it ends are called in the middle of it."""
    script = f"""
import signal
import numpy as np
import burn

burn.set_num_threads({threads})
launch = burn.compile(lambda x, y: (x[:, None] * y).tanh().exp().sin().cos().tan().sum(1), ("float32[n]", "float32[m]"))
assert len(launch.artefact.kernels) == 1
count = 0
def tick(*_):
    global count
    count += 1
signal.signal(signal.SIGPROF, tick)
signal.setitimer(signal.ITIMER_PROF, 0.02, 0.02)
launch(np.ones(65536, np.float32), np.ones(1536, np.float32))
print(count)
"""
    assert int(run(script).stdout) >= 3


def test_handlers_that_do_not_raise_let_a_run_go_on() -> None:
    script = ENDLESS + (
        "import signal\ncount = 0\n"
        "def tick(*_):\n    global count\n    count += 1\n"
        "    if count == 5:\n        signal.setitimer(signal.ITIMER_REAL, 0)\n        raise TimeoutError\n"
        "signal.signal(signal.SIGALRM, tick)\n"
        "try:\n    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)\n    endless(x)\nexcept TimeoutError:\n    print(count)\n"
    )
    assert run(script).stdout == "5\n"


def test_a_process_ends_while_daemon_threads_run() -> None:
    for script in (
        BUSY,
        ENDLESS + "import threading\nthreading.Thread(target=endless, args=(x,), daemon=True).start()\n",
    ):
        done = run(script + "import time\ntime.sleep(0.2)\n")
        assert (done.returncode, done.stderr) == (0, "")


def test_a_child_runs_whatever_other_threads_hold() -> None:
    """Large blocks and the contexts of runs come from caches with locks."""
    # CPython 3.12 and later warn of a fork beside threads, which is what is tested.
    script = (
        "import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n"
        + BUSY
        + (
            "import os\n"
            "for _ in range(20):\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        product(x, x[:64])\n"
            "        os._exit(0)\n"
            "    until = time.time() + 120\n"
            "    while not (done := os.waitpid(child, os.WNOHANG))[0] and time.time() < until:\n"
            "        time.sleep(0.005)\n"
            "    assert done == (child, 0), done\n"
            "os._exit(0)\n"
        )
    )
    done = run(script, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
