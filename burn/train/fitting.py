"""One call of `Learner.fit`: epochs of steps and validation, events for observers, and checkpoints.

A checkpoint is made between two steps, or after an epoch once observers have received its event. So it contains their state and
their changes (a learning rate).
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.distributed import processes
from burn.errors import BurnError, ModelError, Problem, TypeMismatch
from burn.nn.parameter import Parameter
from burn.runtime.arrays import on_host
from burn.train import batches, checkpoints, events, parts, randomness
from burn.train.batches import Source, Splits
from burn.train.events import Control, Event, Observer, Summary
from burn.train.metrics import Tally
from burn.train.position import Position

if TYPE_CHECKING:
    from burn.train.learner import Learner

PROGRAMS = 8
"""Number of compilations of the step that triggers a warning about varying batches."""


class TrainingError(BurnError):
    """Training cannot go on: the loss is NaN or infinite, or there is no data."""


class Fitting:
    """The state of a training that is under way."""

    def __init__(self, learner: Learner, train: Source, valid: Splits | None, epochs: int, trial: bool = False) -> None:
        """trial: nothing is written, and observers that log or stop are not called."""
        self.learner, self.train, self.valid, self.epochs = learner, train, valid, epochs
        self.folder = None if trial else learner.folder
        splits = () if valid is None else valid.names
        if lost := learner.lost(learner.keep.metrics, splits):
            raise TypeMismatch("this training cannot keep its best checkpoints", lost)
        self.better = learner.better_of(splits)
        self.control = Control()
        self.own = processes.current() if learner.mesh is not None else None
        self.requests = self.control if self.own is None else Control()
        """Requests that one process alone has, which the others must learn of: of signals, and of observers in rank 0."""
        self.observers: list[Observer] = [
            o for o in (*learner.observers, *_usual(learner, self.folder)) if self._is_called(o)
        ]
        if trial:
            self.observers = [o for o in self.observers if not getattr(o, "skips_trials", False)]
        self.at = Position(learner, train, valid, self.better)
        self.checkpoint: Path | None = None
        self.began = time.perf_counter()
        self._warned = False
        self._saves = 0  # requests for a checkpoint that were served
        self._damaged: list[checkpoints.DamagedCheckpoint] = []  # newer than the checkpoint that is resumed from
        self._readings: dict[str, float] = {}  # the gauges', summed over the steps of the epoch
        self._steps, self._examples, self._seconds = 0, 0, 0.0

    # ---- the whole -----------------------------------------------------------------------------------------------------
    def run(self, resume: Any, overwrite: bool) -> Summary:
        if self.own is None:
            with checkpoints.alone(self.folder):
                return self._run(resume, overwrite)
        with ExitStack() as stack:
            self.own.on_first("the folder's lock", lambda: stack.enter_context(checkpoints.alone(self.folder)))
            return self._run(resume, overwrite)

    def _is_called(self, observer: Observer) -> bool:
        return self.own is None or self.own.rank == 0 or not getattr(observer, "only_first", False)

    def _run(self, resume: Any, overwrite: bool) -> Summary:
        train, valid = self.train, self.valid
        saved = self._to_resume(resume, overwrite)
        if saved is not None:
            self.at.restore(saved)
            self.checkpoint = saved.path
        left = self.epochs - self.at.epoch + 1
        train.once(left)
        if valid is not None:
            valid.once(left)
        error = ""
        try:
            with _signals(self), self.learner.checking():
                self._start()
                while self.at.epoch <= self.epochs and not self.control.stopping:
                    self._one_epoch()
                if self.control.stopping:
                    self._tell(events.Stopped(self.control.reason, self.at.epoch, self.at.step))
                    if self.folder is not None and self._newest_step() != self.at.step:
                        self.save(self.control.reason)
        except BaseException as failure:
            error = str(failure) or type(failure).__name__
            raise
        finally:
            summary = self.summary(error)
            self._tell_end(summary)
        return summary

    def _start(self) -> None:
        learner, model = self.learner, self.learner.model
        moved = {id(p): p for o in learner.optimizers.values() for p in o.parameters.values()}
        self._tell(
            events.Started(
                run=learner.name,
                folder=self.folder,
                model=type(model).__name__,
                optimizer=", ".join(type(o).__name__ for o in learner.optimizers.values()),
                parameters=model.num_params(),
                trainable=sum(p.count for p in moved.values()),
                epochs=self.epochs,
                batches=self.train.count(),
                valid_batches=self.valid.count() if self.valid is not None else None,
                epoch=self.at.epoch,
                batch=self.at.batch,
                step=self.at.step,
                metrics=self.better,
            )
        )
        for error in self._damaged:
            text = (
                f"{error.summary}: {error.problems[0].message if error.problems else ''}; resumed from the one before"
            )
            self._tell(events.Warned(text, self.at.step))

    def _one_epoch(self) -> None:
        began = time.perf_counter()
        self.at.trained = self.at.trained or self._train_epoch()
        validated = self._validate() if self.at.trained else None
        if validated is None:
            return
        (train, found), (told, other) = self.at.tally.told(), validated
        train |= self._gauged()
        tables = {f"train.{name}": table for name, table in found.items()}
        tables |= {f"valid.{name}": table for name, table in other.items()}
        self.at.history.append({"epoch": self.at.epoch, "step": self.at.step, "train": train, "valid": told})
        seconds = time.perf_counter() - began
        ended = events.EpochEnded(self.at.epoch, self.at.step, train, told, self.at.tally.examples, seconds, tables)
        self._tell(ended)
        done = self.at.epoch
        self.at.next_epoch()
        if self.folder is not None:
            self.save(f"epoch {done}", of_epoch=done)

    # ---- an epoch ------------------------------------------------------------------------------------------------------
    def _train_epoch(self) -> bool:
        """The steps that are left of an epoch; False when training stopped before its end."""
        self._readings = dict.fromkeys((gauge.name for gauge in self.learner.gauges), 0.0)
        self._steps, self._examples, self._seconds = 0, 0, 0.0
        given = self._batches()
        before = time.perf_counter()
        while True:
            batch = next(given, _END)
            if batch is _END:
                break
            waited = time.perf_counter() - before
            with self._placed(batch, self.at.batch + 1):
                values, count, rate = self.learner.train_step(batch, self.at.tally)
            self.at.batch, self.at.step = self.at.batch + 1, self.at.step + 1
            if not math.isfinite(values["loss"]):
                raise self._diverged(values["loss"], batch)
            now = time.perf_counter()
            self._steps, self._examples = self._steps + 1, self._examples + count
            self._seconds += now - before
            for gauge in self.learner.gauges:
                values[gauge.name] = gauge.read(count, now - before)
                self._readings[gauge.name] += values[gauge.name]
            self._tell(
                events.Stepped(self.at.epoch, self.at.batch, self.at.step, values, count, now - before, waited, rate)
            )
            before = time.perf_counter()
            self._between()
            if self.control.stopping:
                return False
        if not self.at.batch:
            raise TrainingError(f"there is no batch in epoch {self.at.epoch}", ["the training data is empty"])
        return True

    def _batches(self) -> Iterator[Any]:
        """The epoch's batches behind those that are done."""
        self.at.others = randomness.others()
        given = self.train.batches(self.at.epoch)
        if self.at.batch and not self.train.has_position:
            state = randomness.own()
            self.train.skip(given, self.at.batch)
            randomness.go_to(state)
        return given

    def _between(self) -> None:
        """The work between two steps: checkpoints and warnings."""
        self._agree_on_requests()
        every = self.learner.keep.every
        if self.folder is not None and (self.control.save_wanted or (every and self.at.step % every == 0)):
            why = "asked for" if self.control.save_wanted else f"step {self.at.step}"
            self.control.save_wanted = False
            self.save(why)
        if not self._warned and self.learner.programs >= PROGRAMS:
            self._warned = True
            count, cure = self.learner.programs, "batches should differ in the size of their first axis alone"
            self._tell(events.Warned(f"the step has been compiled {count} times: {cure}", self.at.step))

    def _agree_on_requests(self) -> None:
        """Takes over the requests of single processes, at the same step in all. A process publishes a request between two steps,
        as one of the end of the next step. No other can end that step without this process, so all see the request in time."""
        own = self.own
        if own is None:
            return
        for name, wanted in (("stop", self.requests.reason), ("save", self.requests.save_wanted)):
            number = self._saves if name == "save" else 0
            key = f"{name} {number}"
            found = own.first(key, [self.at.step + 1, wanted]) if wanted else own.peek(key)
            if found is not None and found[0] <= self.at.step:
                if name == "stop":
                    self.control.stop(str(found[1]))
                else:
                    self.control.save_wanted, self.requests.save_wanted = True, False
                    self._saves += 1

    def _validate(self) -> tuple[dict[str, float], dict[str, np.ndarray]] | None:
        """Values and tables of the validation set: empty without one, None if training stops meanwhile."""
        if self.valid is None:
            return {}, {}
        number = 0
        told: dict[str, dict[str, float]] = {}
        found: dict[str, dict[str, np.ndarray]] = {}
        began = before = time.perf_counter()
        with self.learner.inference():
            for split, source in self.valid.sources.items():
                tally = Tally(self.learner.metrics)
                where = f" of validation{f' ({split})' if split else ''}"
                for at, batch in enumerate(source.batches(self.at.epoch), 1):
                    number += 1
                    with self._placed(batch, at, where):
                        values = self.learner.valid_step(batch, tally)
                    now = time.perf_counter()
                    self._tell(events.ValidStepped(self.at.epoch, number, values, now - before, split))
                    before = now
                    if self.control.stopping:
                        return None
                if not tally.examples:
                    raise TrainingError(f"there is no batch{where} in epoch {self.at.epoch}", ["the data is empty"])
                told[split], found[split] = tally.told()
        self.at.validated()
        values, tables = self.valid.named(told), self.valid.named(found)
        for split, own in told.items():
            if not math.isfinite(own["loss"]):
                name = f"validation{f' ({split})' if split else ''}"
                text = f"the loss of {name} in epoch {self.at.epoch} is {own['loss']}"
                self._tell(events.Warned(text, self.at.step))
        self._tell(events.Validated(self.at.epoch, self.at.step, values, time.perf_counter() - began))
        return values, tables

    def _gauged(self) -> dict[str, float]:
        """The gauges' values of the epoch, or of its rest after a resume."""
        steps, done = max(self._steps, 1), (self._examples, self._seconds)
        return {g.name: g.of_epoch(self._readings.get(g.name, 0.0) / steps, *done) for g in self.learner.gauges}

    # ---- what goes wrong -----------------------------------------------------------------------------------------------
    @contextmanager
    def _placed(self, batch: Any, number: int, where: str = "") -> Iterator[None]:
        """Errors say which batch they are of."""
        try:
            yield
        except BurnError as error:
            error.summary = f"epoch {self.at.epoch}, batch {number}{where}: {error.summary}"
            if isinstance(error, TypeMismatch):
                types = {p.dtype for p in self.learner.model.parameters()}
                error.problems = (*error.problems, *batches.wider(batch, types))
            raise

    def _diverged(self, loss: float, batch: Any) -> TrainingError:
        given = batch if isinstance(batch, batches.Several) else [batch]
        causes = [text for one in given for text in batches.spoiled(*batches.arguments(one))]
        if not causes and self.learner.lacks_targets:
            causes = ["the loss is a mean over the targets that count, and no target of the batch does (ignore_index)"]
        advice = "a lower learning rate, warming up or clip_norm may help"
        if not self.learner.anomaly:
            advice += "; Learner(..., anomaly=True) names the op that makes the first NaN"
        causes = causes or [advice]
        return TrainingError(
            f"the loss of step {self.at.step} (epoch {self.at.epoch}, batch {self.at.batch}) is {loss}",
            [*causes, self._last_good()],
        )

    def _last_good(self) -> str:
        last = None if self.folder is None else checkpoints.newest(self.folder)
        return f"the last checkpoint is {last}" if last is not None else "there is no checkpoint"

    # ---- checkpoints ---------------------------------------------------------------------------------------------------
    def save(self, why: str, of_epoch: int | None = None) -> None:
        """Writes a checkpoint of the present state. Raises TrainingError for NaN or infinite parameters, and ModelError if
        the file cannot be written; earlier checkpoints then stay."""
        assert self.folder is not None
        began = time.perf_counter()
        self._must_be_finite()
        if of_epoch is not None:
            self.at.ends[of_epoch] = self.at.step
        path = checkpoints.path_of(self.folder, self.at.step)
        try:
            if self.own is None:
                checkpoints.write(path, self.at.tensors(), self.at.facts())  # type: ignore[arg-type]  # in host memory
            else:
                parts.write(path, self.at.tensors(), self.at.facts(), self.own)
        except ModelError as error:
            raise ModelError(error.summary, [*error.problems, self._last_good()]) from None
        self.checkpoint = path
        epochs = [self.at.best(name)[1] for name in self.learner.keep.metrics]
        best = [self.at.ends[e] for e in epochs if e in self.at.ends]
        if self.own is None or self.own.rank == 0:
            checkpoints.tidy(self.folder, self.at.step, self.learner.keep.last, best)
        self._tell(events.Saved(path, why, of_epoch or self.at.epoch, self.at.step, time.perf_counter() - began))

    def _must_be_finite(self) -> None:
        wrong = [
            Problem(f"'{path}' holds NaN or infinity")
            for o in self.learner.optimizers.values()
            for path, p in o.parameters.items()
            if not _is_finite(p)
        ]
        if self.own is not None:
            wrong = [
                Problem(text)
                for found in self.own.gather("spoiled parameters", [str(p) for p in wrong])
                for text in found
            ]
        if wrong:
            raise TrainingError(f"step {self.at.step} has spoiled parameters", [*wrong, Problem(self._last_good())])

    def _to_resume(self, resume: Any, overwrite: bool) -> checkpoints.Saved | None:
        """The checkpoint to go on from, if any. Raises ModelError."""
        if resume is not True and resume is not False and resume is not None:
            return checkpoints.read(resume)
        if self.folder is None:
            if resume:
                raise ModelError("there is nothing to resume", ["the Learner has no folder"])
            return None
        folder = self.folder

        def prepared() -> None:
            self.learner.must_be_free(resume, overwrite)
            checkpoints.clear(folder, everything=overwrite and not resume)

        if self.own is None:
            prepared()
        else:
            self.own.on_first("the folder", prepared)
        if not resume:
            return None
        saved, damaged = checkpoints.newest_whole(folder)
        self._damaged = damaged
        if self.own is not None:
            self.own.agree("the checkpoint to resume from", None if saved is None else saved.path.name)
        return saved

    def _newest_step(self) -> int | None:
        return next(reversed(checkpoints.found(self.folder)), None) if self.folder is not None else None

    # ---- what it came to -----------------------------------------------------------------------------------------------
    def summary(self, error: str = "") -> Summary:
        so_far = self.at.tally.values() if self.at.tally.examples else {}
        last: Mapping[str, Any] = self.at.history[-1] if self.at.history else {"train": so_far, "valid": {}}
        gauges = {gauge.name for gauge in self.learner.gauges}
        best = {name: self.at.best(name) for name in self.better if name not in gauges}
        return Summary(
            run=self.learner.name,
            epochs=len(self.at.history),
            steps=self.at.step,
            seconds=time.perf_counter() - self.began,
            reason="failed" if error else self.control.reason or "done",
            train=last["train"],
            valid=last["valid"],
            best={name: found for name, found in best.items() if found[1]},
            folder=self.folder,
            checkpoint=self.checkpoint,
            error=error,
            history=tuple(self.at.history),
        )

    def _tell(self, event: Event) -> None:
        for observer in self.observers:
            observer(event, self._control_of(observer))

    def _control_of(self, observer: Observer) -> Control:
        return self.requests if getattr(observer, "only_first", False) else self.control

    def _tell_end(self, summary: Summary) -> None:
        """Tells all observers, whatever one of them raises: each may have something to give back."""
        with ExitStack() as stack:
            for observer in reversed(self.observers):
                stack.callback(observer, events.Finished(summary), self._control_of(observer))


_END = object()


def _is_finite(p: Parameter) -> bool:
    """True if all elements that this process has are finite."""
    blocks = [on_host(p.elements)] if p.on_mesh is None else [block for _, block in p.on_mesh.shards()]
    return all(bool(np.isfinite(block).all()) for block in blocks)


def _usual(learner: Learner, folder: Path | None) -> list[Observer]:
    """The observers that a training has without being told."""
    from burn.train.logs import JsonLines
    from burn.train.progress import ProgressLine

    usual: list[Observer] = [JsonLines(folder / "log.jsonl")] if folder is not None else []
    return [*usual, ProgressLine()] if learner.progress else usual


@contextmanager
def _signals(fitting: Fitting) -> Iterator[None]:
    """Inside, Ctrl-C and SIGTERM ask training to stop; once it was asked, they raise as they do elsewhere."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}

    def ask(number: int, frame: Any) -> None:
        if fitting.requests.stopping:
            raise KeyboardInterrupt
        fitting.requests.stop(names[signal.Signals(number)])

    before = {number: signal.signal(number, ask) for number in names}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
