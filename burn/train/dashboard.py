"""A dashboard for training in a terminal: live curves of metrics, progress, keys. Start at `fit`.

    summary = burn.train.dashboard.fit(learner, train, valid, epochs=10)        # as learner.fit(train, valid, epochs=10)

The screen runs in the main thread, which alone receives signals and terminal sizes; training runs in another thread. Its events
go through a queue, so training never waits for the screen. When training ends, also by an error, the terminal is restored
before anything is printed.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text

try:
    from textual.app import App, ComposeResult, RenderResult
    from textual.binding import Binding, BindingType
    from textual.containers import Vertical
    from textual.events import Resize
    from textual.widget import Widget
    from textual.widgets import Footer
except ImportError as error:
    raise ImportError("the dashboard is drawn by textual: pip install 'burn-mlir[train]'") from error

from burn.train.curves import History
from burn.train.events import Control, Event, Summary
from burn.train.learner import Learner
from burn.train.plot import Line, plot
from burn.train.report import duration, spelled

RANGES = ("all", "this epoch", "last steps")
FEWEST, MOST = 20, 4000
"""Steps that "last steps" may show."""
WIDE, TALL = 110, 36
"""From how many columns on the numbers stand beside the curves, and from how many rows on there are two plots."""
FEW = 6
"""Metrics whose numbers stand below the curves."""
EVERY = 0.15
"""Seconds between two pictures."""


def fit(learner: Learner, train: Any, valid: Any = None, **how: Any) -> Summary:
    """`learner.fit(train, valid, **how)` with a dashboard; without a terminal, only that.

    Keys: m and M choose the metric, r the range, + and - the number of last steps, s saves. q and Ctrl-C stop after the current
    step, with a checkpoint. Raises the errors of `fit`, after restoring the terminal."""
    if not in_terminal():
        return learner.fit(train, valid, **how)
    result: list[Summary] = []
    app = Dashboard(lambda: result.append(learner.fit(train, valid, **how)))
    progress, observers = learner.progress, learner.observers
    learner.progress, learner.observers = False, (*observers, app.observe)
    try:
        with _terminated(app):
            app.run()
            app.wait()
    finally:
        learner.progress, learner.observers = progress, observers
    if app.failure is not None:
        raise app.failure
    if progress:
        print(result[0])
    return result[0]


def in_terminal() -> bool:
    """True in the main thread of a process with a terminal."""
    mine = threading.current_thread() is threading.main_thread()
    return mine and sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def _terminated(app: Dashboard) -> Iterator[None]:
    """Inside, SIGTERM stops training in good order."""
    before = signal.signal(signal.SIGTERM, lambda *_: app.ask("terminated"))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Curves(Widget):
    """The plot of one metric; `behind` says how many metrics after the chosen one."""

    def __init__(self, dashboard: Dashboard, behind: int) -> None:
        super().__init__(id=f"curves{behind}", classes="curves")
        self.dashboard, self.behind = dashboard, behind

    def render(self) -> RenderResult:
        board, (width, height) = self.dashboard, self.size
        name = board.metric(self.behind)
        if not name or height < 4:
            return ""
        start = board.first_step()
        curves = {side: curve.points(start) for side, curve in board.history.curves[name].items()}
        title = Text(no_wrap=True, overflow="ellipsis")
        title.append(name, "bold")
        title.append(f"  {board.range_name()}   ", "dim")
        title.append("⣀⡠ train ", "cyan").append("  ◆ valid" if curves["valid"] else "", "yellow")
        lines = [Line(curves["train"], "cyan"), Line(curves["valid"], "yellow", marked=True)]
        return Text("\n").join([title, plot(lines, width, height - 1)])


class Numbers(Widget):
    """Every metric as it is and was at its best."""

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(id="numbers")
        self.dashboard = dashboard

    def render(self) -> RenderResult:
        history = self.dashboard.history
        table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
        table.add_column("metric", no_wrap=True)
        for name in ("train", "valid", "best", "epoch"):
            table.add_column(name, justify="right", no_wrap=True)
        for name in self._shown():
            sides = history.curves[name]
            best, epoch = history.best.get(name, (0.0, 0))
            cells = [spelled(c.last) if c.recent else "" for c in (sides["train"], sides["valid"])]
            style = "reverse" if name == self.dashboard.metric() else ""
            table.add_row(name, *cells, spelled(best) if epoch else "", str(epoch or ""), style=style)
        return table

    def _shown(self) -> list[str]:
        """As many metrics as there is room for, the chosen one among them."""
        names = list(self.dashboard.history.curves)
        room = max(1, self.size.height - 1) if self.screen.has_class("wide") else FEW
        chosen = self.dashboard.chosen % len(names) if names else 0
        first = max(0, min(chosen - room // 2, len(names) - room))
        return names[first : first + room]


class Progress(Widget):
    """How far training is."""

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(id="progress")
        self.dashboard = dashboard

    def render(self) -> RenderResult:
        history = self.dashboard.history
        started = history.started
        if started is None:
            return Text("compiling ...", "dim")
        batches, checked = started.batches, started.valid_batches
        batch = _bar(history.batch / batches if batches else None, self.size.width, "batch", history.batch, batches)
        if history.valid_batch:
            share = history.valid_batch / checked if checked else None
            batch = _bar(share, self.size.width, "validation", history.valid_batch, checked)
        left = "? left" if history.left is None else f"{duration(history.left)} left"
        if self.dashboard.control.stopping:
            left = "stopping"
        elif history.step == started.step:
            left = "compiling"
        facts = [left, f"{duration(history.seconds)} so far", f"{history.examples_per_second:,.0f} examples/s"]
        facts += [f"lr {spelled(history.rate)}"] if history.step else []
        facts += [f"{history.waited:.0%} waiting for data"] if history.waited >= 0.05 else []
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(_bar(history.done, self.size.width, "epoch", history.epoch, started.epochs)).append("\n")
        return text.append(batch).append("\n").append("  ".join(facts), "bold").append(f"  {history.note}", "dim")


def _bar(share: float | None, width: int, name: str, at: int, of: int | None) -> Text:
    label = f"{name} {at}" + (f" of {of}" if of is not None else "")
    text = Text(f"{label:<24}")
    room = max(0, width - 24 - 6)
    if share is None or not room:
        return text
    full = round(min(1.0, share) * room)
    return text.append("━" * full, "cyan").append("─" * (room - full), "dim").append(f"{min(1.0, share):>5.0%}")


class Title(Widget):
    """The run, the model and the optimizer."""

    def __init__(self, dashboard: Dashboard) -> None:
        super().__init__(id="title")
        self.dashboard = dashboard

    def render(self) -> RenderResult:
        started = self.dashboard.history.started
        if started is None:
            return Text("burn", "bold")
        count = f"{started.trainable:,} of {started.parameters:,}"
        parameters = f"{started.parameters:,}" if started.trainable == started.parameters else count
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(started.run, "bold")
        where = f"  {started.folder}" if started.folder is not None else ""
        return text.append(f"  {started.model}, {parameters} parameters, {started.optimizer}{where}")


class Dashboard(App[None]):
    """The screen of one training; `work` is the training, which starts when the screen is there and tells `observe`."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #title { height: 1; background: $primary; color: $text; padding: 0 1; }
    #body { height: 1fr; padding: 0 1; }
    #plots { width: 1fr; }
    .curves { height: 1fr; }
    #numbers { height: auto; max-height: 7; width: 1fr; margin-top: 1; }
    #progress { height: 3; padding: 0 1; margin-top: 1; }
    #curves1 { display: none; }
    Screen.tall #curves1 { display: block; margin-top: 1; }
    Screen.wide #body { layout: horizontal; }
    Screen.wide #numbers { width: 52; height: 1fr; max-height: 100%; margin: 0 0 0 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+q", "stop('stopped (q)')", "stop", key_display="q", priority=True),
        Binding("ctrl+c", "stop('interrupted')", show=False, priority=True),
        Binding("m,right,down", "metric(1)", "metric", key_display="m"),
        Binding("M,left,up", "metric(-1)", show=False),
        Binding("r", "range", "range"),
        Binding("plus,equals_sign", "steps(2)", "more steps", key_display="+"),
        Binding("minus", "steps(0.5)", "fewer", key_display="-"),
        Binding("s", "save", "save"),
    ]

    def __init__(self, work: Callable[[], object] | None = None) -> None:
        super().__init__()
        self.history = History()
        self.control = Control()
        self.failure: BaseException | None = None
        self.chosen, self.shown, self.steps = 0, 0, 200
        self._queue: deque[tuple[Event, Control]] = deque()
        self._work = work
        self._thread: threading.Thread | None = None
        self._over = False

    # ---- training --------------------------------------------------------------------------------------------------------
    def observe(self, event: Event, control: Control) -> None:
        """The observer that training tells. Called in its thread."""
        if self.control is not control:  # keys that were pressed before
            if self.control.stopping:
                control.stop(self.control.reason)
            self.control = control
        self._queue.append((event, control))

    def ask(self, reason: str) -> None:
        self.control.stop(reason)

    def wait(self) -> None:
        """Until training has ended, when the screen is left before."""
        while self._thread is not None and self._thread.is_alive():
            try:
                self._thread.join()
            except KeyboardInterrupt:
                self.ask("interrupted")

    def _train(self) -> None:
        assert self._work is not None
        try:
            self._work()
        except BaseException as error:
            self.failure = error
        self._over = True

    # ---- the screen --------------------------------------------------------------------------------------------------------
    def compose(self) -> ComposeResult:
        yield Title(self)
        with Vertical(id="body"):
            with Vertical(id="plots"):
                yield Curves(self, 0)
                yield Curves(self, 1)
            yield Numbers(self)
        yield Progress(self)
        yield Footer()

    def on_mount(self) -> None:
        self.set_interval(EVERY, self.draw)
        if self._work is not None:
            self._thread = threading.Thread(target=self._train, name="burn-train", daemon=True)
            self._thread.start()

    def on_resize(self, event: Resize) -> None:
        self.screen.set_class(event.size.width >= WIDE, "wide")
        self.screen.set_class(event.size.height >= TALL, "tall")

    def draw(self) -> None:
        """Processes queued events and draws."""
        over = self._over  # read first, so that the last events are processed
        count = len(self._queue)
        for _ in range(count):
            self.history.tell(self._queue.popleft()[0])
        if over:
            self.exit()
        if count:
            self.paint()
        self.query_one(Progress).refresh()  # time goes on

    def paint(self) -> None:
        for widget in self.query("Title, Curves, Numbers, Progress"):
            widget.refresh(layout=isinstance(widget, Numbers))

    # ---- what is shown -------------------------------------------------------------------------------------------------------
    def metric(self, behind: int = 0) -> str:
        """The chosen metric, or one after it; "" where there are fewer."""
        names = list(self.history.curves)
        if behind >= max(1, len(names)) or not names:
            return ""
        return names[(self.chosen + behind) % len(names)]

    def first_step(self) -> float:
        """The first step of the range that is shown."""
        history = self.history
        return (0.0, history.epoch_start + 1.0, history.step - self.steps + 1.0)[self.shown]

    def range_name(self) -> str:
        return f"last {self.steps} steps" if self.shown == 2 else RANGES[self.shown]

    def action_metric(self, by: int) -> None:
        self.chosen += by
        self.paint()

    def action_range(self) -> None:
        self.shown = (self.shown + 1) % len(RANGES)
        self.paint()

    def action_steps(self, factor: float) -> None:
        self.steps, self.shown = max(FEWEST, min(MOST, round(self.steps * factor))), 2
        self.paint()

    def action_save(self) -> None:
        self.control.save()

    def action_stop(self, reason: str) -> None:
        """Stops training; pressed again, leaves the screen while it does."""
        if self.control.stopping or self._work is None:
            self.exit()
        self.ask(reason)
        self.paint()
