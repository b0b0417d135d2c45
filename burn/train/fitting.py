"""One call of `Learner.fit`: epochs of steps and validation, what observers are told, and checkpoints between.

A checkpoint is made between two steps, or after an epoch when observers have seen it: so what they remember, and what they
changed (a learning rate), is in it.
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

from burn.errors import BurnError, ModelError, Problem, TypeMismatch
from burn.train import batches, checkpoints, events, randomness
from burn.train.batches import Source
from burn.train.checkpoints import lent, weight
from burn.train.events import Control, Event, Observer, Summary
from burn.train.metrics import Tally
from burn.train.stopping import Chosen

if TYPE_CHECKING:
    from burn.train.learner import Learner

PROGRAMS = 8
"""Compilations of the step after which people are told that batches differ too much."""


class TrainingError(BurnError):
    """Training cannot go on: the loss is NaN or infinite, or there is no data."""


class Fitting:
    """The state of a training that is under way."""

    def __init__(self, learner: Learner, train: Source, valid: Source | None, epochs: int) -> None:
        self.learner, self.train, self.valid, self.epochs = learner, train, valid, epochs
        self.folder = learner.folder
        self.control = Control()
        self.observers: list[Observer] = [*learner.observers, *_usual(learner)]
        self.epoch, self.batch, self.step = 1, 0, 0  # batch: those of the epoch that are done
        self.trained = False  # whether of the epoch validation alone is left
        self.tally = Tally(learner.metrics)
        self.history: list[dict[str, Any]] = []
        self.steps_of: dict[int, int] = {}  # the checkpoint of an epoch's end, by epoch: its step
        self.checkpoint: Path | None = None
        self.began = time.perf_counter()
        self._others = randomness.others()  # as they were when the epoch began
        self._told = False
        self._readings: dict[str, float] = {}  # the gauges', summed over the steps of the epoch
        self._steps, self._examples, self._seconds = 0, 0, 0.0

    # ---- the whole -----------------------------------------------------------------------------------------------------
    def run(self, resume: bool | str | Any, overwrite: bool) -> Summary:
        train, valid = self.train, self.valid
        saved = self._to_resume(resume, overwrite)
        if saved is not None:
            self.restore(saved)
        left = self.epochs - self.epoch + 1
        train.once(left)
        if valid is not None:
            valid.once(left)
        error = ""
        try:
            with _signals(self):
                self._start()
                while self.epoch <= self.epochs and not self.control.stopping:
                    self._one_epoch()
                if self.control.stopping:
                    self._tell(events.Stopped(self.control.reason, self.epoch, self.step))
                    if self.folder is not None and self._newest_step() != self.step:
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
                epoch=self.epoch,
                batch=self.batch,
                step=self.step,
                metrics=learner.better,
            )
        )

    def _one_epoch(self) -> None:
        began = time.perf_counter()
        self.trained = self.trained or self._train_epoch()
        validated = self._validate() if self.trained else None
        if validated is None:
            return
        (train, found), (told, other) = self.tally.told(), validated
        train |= self._gauged()
        tables = {f"train.{name}": table for name, table in found.items()}
        tables |= {f"valid.{name}": table for name, table in other.items()}
        self.history.append({"epoch": self.epoch, "step": self.step, "train": train, "valid": told})
        seconds = time.perf_counter() - began
        ended = events.EpochEnded(self.epoch, self.step, train, told, self.tally.examples, seconds, tables)
        self._tell(ended)
        done = self.epoch
        self.epoch, self.batch, self.trained = self.epoch + 1, 0, False
        self.tally = Tally(self.learner.metrics)
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
            with self._placed(batch, self.batch + 1):
                values, count, rate = self.learner.train_step(batch, self.tally)
            self.batch, self.step = self.batch + 1, self.step + 1
            if not math.isfinite(values["loss"]):
                raise self._diverged(values["loss"], batch)
            now = time.perf_counter()
            self._steps, self._examples = self._steps + 1, self._examples + count
            self._seconds += now - before
            for gauge in self.learner.gauges:
                values[gauge.name] = gauge.read(count, now - before)
                self._readings[gauge.name] += values[gauge.name]
            self._tell(events.Stepped(self.epoch, self.batch, self.step, values, count, now - before, waited, rate))
            before = time.perf_counter()
            self._between()
            if self.control.stopping:
                return False
        if not self.batch:
            raise TrainingError(f"there is no batch in epoch {self.epoch}", ["the training data is empty"])
        return True

    def _batches(self) -> Iterator[Any]:
        """The epoch's batches behind those that are done."""
        self._others = randomness.others()
        given = self.train.batches(self.epoch)
        if self.batch and not self.train.keeps_place:
            place = randomness.own()
            self.train.skip(given, self.batch)
            randomness.go_to(place)
        return given

    def _between(self) -> None:
        """What comes between two steps."""
        every = self.learner.keep.every
        if self.folder is not None and (self.control.save_wanted or (every and self.step % every == 0)):
            why = "asked for" if self.control.save_wanted else f"step {self.step}"
            self.control.save_wanted = False
            self.save(why)
        if not self._told and self.learner.programs >= PROGRAMS:
            self._told = True
            count, cure = self.learner.programs, "batches should differ in the size of their first axis alone"
            self._tell(events.Warned(f"the step has been compiled {count} times: {cure}", self.step))

    def _validate(self) -> tuple[dict[str, float], dict[str, np.ndarray]] | None:
        """What the validation set comes to: nothing where there is none, None when training stops meanwhile."""
        if self.valid is None:
            return {}, {}
        tally, number = Tally(self.learner.metrics), 0
        began = before = time.perf_counter()
        with self.learner.inference():
            for batch in self.valid.batches(self.epoch):
                number += 1
                with self._placed(batch, number, " of validation"):
                    values = self.learner.valid_step(batch, tally)
                now = time.perf_counter()
                self._tell(events.ValidStepped(self.epoch, number, values, now - before))
                before = now
                if self.control.stopping:
                    return None
        if not number:
            raise TrainingError(f"there is no batch of validation in epoch {self.epoch}", ["the data is empty"])
        values, tables = tally.told()
        if not math.isfinite(values["loss"]):
            self._tell(events.Warned(f"the loss of validation in epoch {self.epoch} is {values['loss']}", self.step))
        self._tell(events.Validated(self.epoch, self.step, values, time.perf_counter() - began))
        return values, tables

    def _gauged(self) -> dict[str, float]:
        """What the gauges showed in the epoch, or in what was left of it after a resume."""
        steps, done = max(self._steps, 1), (self._examples, self._seconds)
        return {g.name: g.of_epoch(self._readings.get(g.name, 0.0) / steps, *done) for g in self.learner.gauges}

    # ---- what goes wrong -----------------------------------------------------------------------------------------------
    @contextmanager
    def _placed(self, batch: Any, number: int, where: str = "") -> Iterator[None]:
        """Errors say which batch they are of."""
        try:
            yield
        except BurnError as error:
            error.summary = f"epoch {self.epoch}, batch {number}{where}: {error.summary}"
            if isinstance(error, TypeMismatch):
                types = {p.dtype for p in self.learner.model.parameters()}
                error.problems = (*error.problems, *batches.wider(batch, types))
            raise

    def _diverged(self, loss: float, batch: Any) -> TrainingError:
        causes = batches.spoiled(*batches.arguments(batch)) or [
            "a lower learning rate, warming up or clip_norm may help"
        ]
        return TrainingError(
            f"the loss of step {self.step} (epoch {self.epoch}, batch {self.batch}) is {loss}",
            [*causes, self._last_good()],
        )

    def _last_good(self) -> str:
        last = None if self.folder is None else checkpoints.newest(self.folder)
        return f"the last checkpoint is {last}" if last is not None else "there is no checkpoint"

    # ---- checkpoints ---------------------------------------------------------------------------------------------------
    def save(self, why: str, of_epoch: int | None = None) -> None:
        """Writes a checkpoint of what is now. Raises TrainingError for parameters that are NaN or infinite, and ModelError where
        it cannot be written; checkpoints from before stay then."""
        assert self.folder is not None
        began = time.perf_counter()
        self._must_be_finite()
        if of_epoch is not None:
            self.steps_of[of_epoch] = self.step
        path = checkpoints.path_of(self.folder, self.step)
        try:
            checkpoints.write(path, self._tensors(), self._facts())
        except ModelError as error:
            raise ModelError(error.summary, [*error.problems, self._last_good()]) from None
        self.checkpoint = path
        best = [self.steps_of[e] for e in self._best_epochs() if e in self.steps_of]
        checkpoints.tidy(self.folder, self.step, self.learner.keep.last, best)
        self._tell(events.Saved(path, why, of_epoch or self.epoch, self.step, time.perf_counter() - began))

    def _must_be_finite(self) -> None:
        wrong = [
            Problem(f"'{path}' holds NaN or infinity")
            for o in self.learner.optimizers.values()
            for path, p in o.parameters.items()
            if not np.isfinite(p.elements).all()
        ]
        if wrong:
            raise TrainingError(f"step {self.step} has spoiled parameters", [*wrong, Problem(self._last_good())])

    def _tensors(self) -> dict[str, Any]:
        found = {f"model.{path}": lent(p) for path, p in self.learner.model.named_parameters()}
        found |= {name: lent(buffer) for name, buffer in self.learner.named_buffers()}
        return found | {f"metrics.{name}": weight(array) for name, array in self.tally.state_dict().items()}

    def _facts(self) -> dict[str, Any]:
        keeps = self.train.keeps_place
        return {
            "model": type(self.learner.model).__name__,
            "epoch": self.epoch,
            "batch": self.batch,
            "step": self.step,
            "trained": self.trained,
            "history": self.history,
            "checkpoints": sorted(self.steps_of.items()),
            "random": randomness.own(),
            "others": self._others if self.batch and not keeps and not self.trained else randomness.others(),
            "data": self.train.data.state_dict() if keeps else None,  # type: ignore[union-attr]
            "observers": [[type(o).__name__, o.state_dict()] for o in self.learner.observers if _remembers(o)],
        }

    def restore(self, saved: checkpoints.Saved) -> None:
        """Puts model, optimizer, data and all else where they were, or leaves all as it is. Raises ModelError."""
        model, learner = self.learner.model, self.learner
        before, kept = model.state_dict(), {name: buffer.array for name, buffer in learner.named_buffers()}
        model.load(saved.part("model"), adapter=None)
        try:
            for name, optimizer in learner.optimizers.items():
                optimizer.load_state_dict(saved.arrays(f"optimizer.{name}" if name else "optimizer"))
            self._take_step(saved)
            self._take(saved, saved.facts)
        except BaseException as error:
            model.load_state_dict(before)
            for name, buffer in learner.named_buffers():
                buffer.assign(kept[name])
            if isinstance(error, (KeyError, TypeError, ValueError, AttributeError)) and not isinstance(
                error, BurnError
            ):
                raise ModelError(f"{saved.path} is malformed", [f"{type(error).__name__}: {error}"]) from None
            raise

    def _take_step(self, saved: checkpoints.Saved) -> None:
        """What a step keeps for itself. Raises ModelError where it keeps something else."""
        given = saved.arrays("step")
        own = {name: buffer for name, buffer in self.learner.named_buffers() if name.startswith("step.")}
        if {f"step.{name}" for name in given} != own.keys():
            texts = (", ".join(given) or "nothing", ", ".join(own) or "nothing")
            raise ModelError(f"{saved.path} is of another step", [f"that kept {texts[0]}, this one keeps {texts[1]}"])
        for name, array in given.items():
            own[f"step.{name}"].assign(array)

    def _take(self, saved: checkpoints.Saved, facts: Mapping[str, Any]) -> None:
        self.epoch, self.batch, self.step = int(facts["epoch"]), int(facts["batch"]), int(facts["step"])
        self.trained = bool(facts["trained"])
        self.history = [dict(row) for row in facts["history"]]
        self.steps_of = {int(e): int(s) for e, s in facts["checkpoints"]}
        counted = saved.arrays("metrics")
        names = {name.rpartition(".")[0] for name in counted if "." in name}
        if self.batch and (differing := names ^ self.tally.metrics.keys()):
            text = f"{', '.join(sorted(differing))}: counted before or from now on, not both"
            raise ModelError(f"{saved.path} is of the middle of an epoch with other metrics", [text])
        self.tally.load_state_dict(counted)
        self.checkpoint = saved.path
        remembering = [o for o in self.learner.observers if _remembers(o)]
        names, given = [type(o).__name__ for o in remembering], [name for name, _ in facts["observers"]]
        if names != given:
            text = f"it has the state of {', '.join(given) or 'none'}, there are {', '.join(names) or 'none'}"
            raise ModelError(f"{saved.path} was made with other observers", [text])
        for observer, (_, state) in zip(remembering, facts["observers"], strict=True):
            observer.load_state_dict(state)  # type: ignore[attr-defined]
        if self.train.keeps_place != (facts["data"] is not None):
            raise ModelError(
                f"{saved.path} was made with other data", ["a loader that keeps its place, or one that does not"]
            )
        if self.train.keeps_place:
            self.train.data.load_state_dict(facts["data"])  # type: ignore[union-attr]
        randomness.set_others(facts["others"])
        randomness.go_to(facts["random"])

    def _to_resume(self, resume: Any, overwrite: bool) -> checkpoints.Saved | None:
        """The checkpoint to go on from, if any. Raises ModelError."""
        if resume is not True and resume is not False and resume is not None:
            return checkpoints.read(resume)
        if self.folder is None:
            if resume:
                raise ModelError("there is nothing to resume", ["the Learner has no folder"])
            return None
        self.learner.must_be_free(resume, overwrite)
        last = checkpoints.newest(self.folder)
        checkpoints.clear(self.folder, everything=overwrite and not resume)
        return checkpoints.read(last) if last is not None and resume else None

    def _newest_step(self) -> int | None:
        return next(reversed(checkpoints.found(self.folder)), None) if self.folder is not None else None

    # ---- what it came to -----------------------------------------------------------------------------------------------
    def _best_epochs(self) -> list[int]:
        found = [self._best(name) for name in self.learner.keep.metrics]
        return [epoch for _, epoch in found if epoch]

    def _best(self, name: str) -> tuple[float, int]:
        """The best value of a metric and its epoch, 0 where there is none."""
        chosen = Chosen(name)
        less = chosen.better(self.learner.better) == "min"
        values = [(chosen.of_values(row["train"], row["valid"]), row["epoch"]) for row in self.history]
        known = [(v, e) for v, e in values if not math.isnan(v)]
        return (min if less else max)(known, key=lambda pair: pair[0]) if known else (math.nan, 0)

    def summary(self, error: str = "") -> Summary:
        last: Mapping[str, Any] = self.history[-1] if self.history else {"train": {}, "valid": {}}
        best = {name: self._best(name) for name in ("loss", *(m.name for m in self.learner.metrics))}
        return Summary(
            run=self.learner.name,
            epochs=len(self.history),
            steps=self.step,
            seconds=time.perf_counter() - self.began,
            reason="failed" if error else self.control.reason or "done",
            train=last["train"],
            valid=last["valid"],
            best={name: found for name, found in best.items() if found[1]},
            folder=self.folder,
            checkpoint=self.checkpoint,
            error=error,
            history=tuple(self.history),
        )

    def _tell(self, event: Event) -> None:
        for observer in self.observers:
            observer(event, self.control)

    def _tell_end(self, summary: Summary) -> None:
        """Tells all observers, whatever one of them raises: each may have something to give back."""
        with ExitStack() as stack:
            for observer in reversed(self.observers):
                stack.callback(observer, events.Finished(summary), self.control)


_END = object()


def _remembers(observer: Any) -> bool:
    return hasattr(observer, "state_dict") and hasattr(observer, "load_state_dict")


def _usual(learner: Learner) -> list[Observer]:
    """The observers that a training has without being told."""
    from burn.train.logs import JsonLines
    from burn.train.progress import ProgressLine

    usual: list[Observer] = [JsonLines(learner.folder / "log.jsonl")] if learner.folder is not None else []
    return [*usual, ProgressLine()] if learner.progress else usual


@contextmanager
def _signals(fitting: Fitting) -> Iterator[None]:
    """Inside, Ctrl-C and SIGTERM ask training to stop; once it was asked, they raise as they do elsewhere."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}

    def ask(number: int, frame: Any) -> None:
        if fitting.control.stopping:
            raise KeyboardInterrupt
        fitting.control.stop(names[signal.Signals(number)])

    before = {number: signal.signal(number, ask) for number in names}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
