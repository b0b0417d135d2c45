"""The dashboard: its state, drawing, keys and sizes; and the terminal is restored in every case."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual.pilot")  # which needs further packages

from textual.pilot import Pilot
from textual.widgets import Footer

from burn.train import dashboard
from burn.train.curves import LONGEST, RECENT, Curve, History
from burn.train.dashboard import Curves, Dashboard, Numbers, Progress
from burn.train.events import Control, EpochEnded, Event, Finished, Started, Stepped, Summary, Validated, ValidStepped
from burn.train.plot import Line, plot


def events(epochs: int = 3, batches: int = 10) -> Iterator[Event]:
    """A training of ten epochs, as far as the third."""
    yield Started(
        "digits", None, "Network", "AdamW", 1234, 1000, 10, batches, 2, metrics={"loss": "min", "accuracy": "max"}
    )
    for epoch in range(1, epochs + 1):
        for batch in range(1, batches + 1):
            step = (epoch - 1) * batches + batch
            yield Stepped(epoch, batch, step, {"loss": 3 / step}, 64, 0.5, 0.1, 1e-3)
        yield ValidStepped(epoch, 1, {}, 0.1)
        yield Validated(epoch, step, {"loss": 4 / step, "accuracy": 1 - 1 / epoch}, 1.0)
        yield EpochEnded(
            epoch, step, {"loss": 3 / step, "accuracy": 0.5}, {"loss": 4 / step, "accuracy": 1 - 1 / epoch}, 640, 7.0
        )


def told(*some: Event) -> History:
    history = History()
    for event in some or events():
        history.tell(event)
    return history


# ---- state --------------------------------------------------------------------------------------------------------
def test_curves_in_bounded_memory() -> None:
    curve, count = Curve(), 5 * LONGEST + 3
    for step in range(count):
        curve.add(step, float(step))
    curve.add(count, float("nan"))
    every = curve.points()
    assert LONGEST // 2 <= len(every) <= LONGEST and all(abs(x - y) < 1e-6 for x, y in every)
    assert every[-1][0] >= count - 9 and curve.last == count - 1
    assert curve.points(count - 100) == [(float(x), float(x)) for x in range(count - 100, count)]
    assert curve.points(count - RECENT - 50)[0][0] < count - RECENT, "older points are means of neighbours"


def test_where_a_training_stands() -> None:
    history = told()
    assert history.step == 30 and history.epoch_start == 20 and history.done == 0.3
    assert history.left == pytest.approx(70 * 0.5 + 8 * 2.0)
    assert history.examples_per_second == pytest.approx(128) and history.waited == pytest.approx(0.2)
    assert history.best == {"loss": (4 / 30, 3), "accuracy": (1 - 1 / 3, 3)}
    assert history.curves["loss"]["train"].points(29) == [(29, 3 / 29), (30, 3 / 30)]
    assert history.curves["accuracy"]["train"].points() == [(10, 0.5), (20, 0.5), (30, 0.5)], (
        "by epoch, where steps do not tell"
    )
    unknown = told(Started("", None, "", "", 0, 0, 2, None, None), Stepped(1, 1, 1, {}, 1, 0.1, 0.0, 0.1))
    assert unknown.left is None and unknown.done is None


# ---- how it draws ------------------------------------------------------------------------------------------------
def test_a_plot_is_this_text() -> None:
    rising = plot([Line([(0, 0.0), (1, 1.0)], "")], 16, 5)
    assert rising.plain.splitlines() == [
        " 1.0400 ┤    ⢀⡠⠊",
        "        │  ⢀⠔⠁  ",
        "-0.0400 ┤⡠⠊⠁    ",
        "        └───────",
        "         0     1",
    ]


def test_marks_leave_room_between() -> None:
    crowded = plot([Line([(x, 0.0) for x in range(500)], "", marked=True)], 48, 6).plain
    assert crowded.count("◆") == 10 and "◆◆" not in crowded


@pytest.mark.parametrize("points", [[], [(5, 1.0)], [(1, 2.0), (2, 2.0)], [(0, -1e30), (1, 1e30)]])
@pytest.mark.parametrize("size", [(0, 0), (9, 3), (12, 4), (80, 20), (300, 2)])
def test_plots_stay_in_their_box(points: list[tuple[float, float]], size: tuple[int, int]) -> None:
    lines = plot([Line(points, "red", marked=True)], *size).plain.splitlines()
    assert len(lines) <= size[1] and all(len(line) <= size[0] for line in lines)
    if points and size == (80, 20):
        assert sum(line.count("◆") for line in lines) == len(points)


# ---- the screen ---------------------------------------------------------------------------------------------------------
def shown(app: Dashboard, *kinds: type) -> str:
    """The text on the screen in these widgets."""
    strips = app.screen._compositor.render_strips()
    lines = ["".join(segment.text for segment in strip) for strip in strips]
    if not kinds:
        return "\n".join(lines)
    regions = [widget.region for kind in kinds for widget in app.query(kind) if widget.display]
    return "\n".join(lines[y][r.x : r.right] for r in regions for y in range(r.y, r.bottom))


def with_pilot(size: tuple[int, int], check: Callable[[Dashboard, Pilot[None]], Any]) -> None:
    async def run() -> None:
        app = Dashboard()
        async with app.run_test(size=size) as pilot:
            control = Control()
            for event in events():
                app.observe(event, control)
            app.draw()
            await pilot.pause()
            await check(app, pilot)

    asyncio.run(run())


def test_a_small_screen_and_its_keys() -> None:
    async def check(app: Dashboard, pilot: Pilot[None]) -> None:
        assert app.size == (80, 24)
        text = shown(app)
        assert "digits" in text and "1,000 of 1,234 parameters, AdamW" in text
        assert "epoch 3 of 10" in text and "30%" in text and "batch 10 of 10" in text
        assert "51.0 s left" in text and "128 examples/s" in text and "20% waiting" in text
        assert "loss  all" in shown(app, Curves) and shown(app, Curves).count("◆") == 4
        assert "0.1333" in shown(app, Numbers) and "accuracy" in shown(app, Numbers) and "stop" in shown(app, Footer)
        await pilot.press("m")
        assert "accuracy  all" in shown(app, Curves)
        await pilot.press("M", "r")
        assert "loss  this epoch" in shown(app, Curves) and "21 " in shown(app, Curves)
        await pilot.press("r", "minus", "minus", "minus", "minus")
        assert "loss  last 20 steps" in shown(app, Curves) and "11 " in shown(app, Curves)
        await pilot.press("s", "q")
        assert app.control.save_wanted and app.control.reason == "stopped (q)" and "stopping" in shown(app, Progress)

    with_pilot((80, 24), check)


def test_a_large_screen_and_resizing() -> None:
    async def check(app: Dashboard, pilot: Pilot[None]) -> None:
        first, second = app.query(Curves)
        assert second.display and "accuracy  all" in shown(app, Curves) and "loss  all" in shown(app, Curves)
        assert app.query_one(Numbers).region.x > first.region.right and first.size.height > 15
        await pilot.resize_terminal(80, 24)
        assert not second.display and app.query_one(Numbers).region.y >= first.region.bottom
        assert first.size.height >= 8 and "epoch 3 of 10" in shown(app)
        await pilot.resize_terminal(20, 6)  # nothing fits, nothing breaks
        await pilot.resize_terminal(200, 50)
        assert second.display and "epoch 3 of 10" in shown(app)

    with_pilot((200, 50), check)


# ---- around a training ------------------------------------------------------------------------------------------------
SUMMARY = Summary("digits", 3, 30, 1.0, "done", {}, {}, {})


class Training:
    """A stand-in for a Learner."""

    def __init__(self, end: Callable[[Control], None]) -> None:
        self.observers: tuple[Any, ...] = ()
        self.progress, self.end = True, end

    def fit(self, train: Any, valid: Any = None, **how: Any) -> Summary:
        assert how == {"epochs": 3}
        if not self.observers:
            return SUMMARY
        assert not self.progress
        control = Control()
        for event in events():
            self.observers[0](event, control)
        self.end(control)
        self.observers[0](Finished(SUMMARY), control)
        return SUMMARY


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "in_terminal", lambda: True)
    run = Dashboard.run
    monkeypatch.setattr(Dashboard, "run", lambda self: run(self, headless=True, size=(80, 24)))


def test_a_training_that_ends(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    learner: Any = Training(lambda control: None)
    assert dashboard.fit(learner, None, epochs=3) is SUMMARY
    assert learner.progress and learner.observers == () and "digits: 3 epochs" in capsys.readouterr().out


def test_a_training_that_fails(terminal: None) -> None:
    def fail(control: Control) -> None:
        raise RuntimeError("the loss is gone")

    learner: Any = Training(fail)
    with pytest.raises(RuntimeError, match="the loss is gone"):
        dashboard.fit(learner, None, epochs=3)
    assert learner.progress and learner.observers == ()


def test_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "in_terminal", lambda: False)
    learner: Any = Training(lambda control: None)
    assert dashboard.fit(learner, None, epochs=3) is SUMMARY


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from tests.train.test_dashboard import Training
from burn.train import dashboard
import time

def fail(control):
    time.sleep(0.5)
    raise RuntimeError("the loss is gone")

dashboard.fit(Training(fail), None, epochs=3)
"""


def test_the_terminal_is_given_back_before_the_traceback(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(root=str(Path(__file__).parents[2])))
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, str(script)], {**os.environ, "TERM": "xterm-256color"})
    output = b""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            read = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        output += read
        if not read:
            break
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    entered, left, trace = (output.find(word) for word in (b"\x1b[?1049h", b"\x1b[?1049l", b"Traceback"))
    assert 0 <= entered < left < trace and b"the loss is gone" in output[trace:]
