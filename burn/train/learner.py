"""`Learner`: a model, a loss and an optimizer, trained for epochs, with metrics, checkpoints and logs.

    learner = burn.train.Learner(model, nn.CrossEntropyLoss(), optim.AdamW(model, lr=1e-3), metrics=[Accuracy()], folder="runs/1")
    summary = learner.fit(train, valid, epochs=10)

A step and a batch of validation are one compiled program each, for every batch size. Enter at `Learner.fit`; the loop itself
is in fitting.py.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from burn.distributed.communication import Communication
from burn.distributed.mesh import Mesh
from burn.distributed.partition import Partition
from burn.errors import ModelError, Problem, TypeMismatch, near
from burn.jitted import Jit
from burn.nn.module import Module
from burn.nn.parameter import Buffer
from burn.optim import Averaged, Optimizer
from burn.runtime.arrays import on_host
from burn.runtime.debugging import checking
from burn.runtime.device import Device
from burn.tensors import Tensor, constant
from burn.tensors.creation import full
from burn.train import batches, checkpoints, states
from burn.train.batches import Data, Several, Source, Splits
from burn.train.checkpoints import Keep
from burn.train.events import Better, Observer, Summary
from burn.train.metrics import Gauge, Metric, Tally
from burn.train.metrics.base import LOSS, host
from burn.train.objective import Objective, Outcome
from burn.train.precision import FULL, checked
from burn.train.rates import RateCurve, find_rate
from burn.train.step import move_to, of_batches
from burn.train.step import step as make_step
from burn.train.trial import unchanged

_MODEL = inspect.Parameter("model", inspect.Parameter.POSITIONAL_ONLY)

RATE = "lr"
"""Name of the learning rate among a step's results, beside the metrics' counts."""


class Learner:
    """Trains a model.

    - `loss`: a loss layer, called with the model's output and the last entry of each batch; or loss(model, *batch), which returns
      the loss or (loss, prediction, target). Metrics need the latter.
    - `optimizer`: of the model; with `step` also several, by name.
    - `metrics`: see burn.train.metrics.
    - `folder`: of checkpoints and logs; without it nothing is saved.
    - `keep`: which checkpoints to keep.
    - `observers`: functions of (event, control), see burn.train.events.
    - `progress`: shows a progress line, and a table at the end.
    - `step`: your own step instead of `burn.train.step`, called with each batch; it updates the parameters and returns the
      result of a loss function.
    - `clip_norm`, `clip_value`, `accumulate`, `precision`, `device`, `mesh`: see `burn.train.step`. With a mesh over several
      processes (`burn.distributed`) each process makes the same Learner. Rank 0 logs; all write their parts of checkpoints.
    - `accumulate_batches`: so many batches make one step, in which every target counts equally (`Step.over`). They may differ in
      all sizes. The last step of an epoch may have fewer. Steps and batches of events and checkpoints are such steps.
    - `anomaly`: ends a step, before it changes parameters, at the first op that makes a NaN of operands without one. The error
      names the op and the line of your code. "inf" also finds infinities. Programs are several times slower
      (`burn.debug.nans`). Not with a mesh, and not with float16, whose gradients overflow by design.
    - `name`: of the run; default: the folder's name.

    Raises TypeMismatch, which lists all incompatible arguments."""

    def __init__(
        self,
        model: Module,
        loss: Any,
        optimizer: Optimizer | Mapping[str, Optimizer],
        *,
        metrics: Sequence[Metric | Gauge] = (),
        folder: str | os.PathLike[str] | None = None,
        keep: Keep | None = None,
        observers: Sequence[Observer] = (),
        progress: bool = True,
        step: Callable[..., Any] | None = None,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        accumulate: int = 1,
        accumulate_batches: int = 1,
        precision: str = FULL,
        anomaly: bool | str = False,
        device: str | Device | None = None,
        mesh: Mesh | None = None,
        name: str = "",
    ) -> None:
        self.model, self.objective = model, Objective(loss)
        several = isinstance(optimizer, Mapping)
        self.optimizers: dict[str, Optimizer] = dict(optimizer) if several else {"": optimizer}  # type: ignore[dict-item]
        self.metrics = tuple(m for m in metrics if isinstance(m, Metric))
        self.gauges = tuple(m for m in metrics if isinstance(m, Gauge))
        self.folder = None if folder is None else Path(folder)
        self.keep, self.observers, self.progress = keep or Keep(), tuple(observers), progress
        self._name = name
        precision = checked(precision)
        how = {"clip_norm": clip_norm, "clip_value": clip_value, "accumulate": accumulate, "precision": precision}
        usual = {"accumulate": 1, "precision": FULL}
        self.group, self.anomaly = accumulate_batches, {False: "", True: "nan"}.get(anomaly, str(anomaly))  # type: ignore[call-overload]
        given = [name for name, value in how.items() if value != usual.get(name)]
        self._check(metrics, step, [*given, *["accumulate_batches"] * (self.group != 1)])
        self._check_modes(accumulate, precision, mesh)
        if mesh is not None and device is not None:
            raise TypeMismatch("this makes no Learner", ["device: a mesh has its own devices"])
        if device is not None:
            self.to(device)
        self._own_step, self._how = step, how
        self.lacks_targets = False  # true if a loss layer of the last step had no target that counts
        self.mesh: Mesh | None = None
        if mesh is not None:
            self.shard(mesh)
        else:
            self._step = None if step is not None else self._compiled_step(how)
        self._valid: Jit | None = None
        self._counting: Jit | None = None
        model.train()

    def to(self, device: str | Device) -> Learner:
        """The model's parameters and the optimizers' states go to a device, to stay there. Raises DeviceError for one that is not
        there."""
        move_to(self.model, self.optimizers.values(), device)
        return self

    def shard(self, mesh: Mesh) -> Learner:
        """Divides the model's parameters, the optimizers' states and batches over a mesh from now on. Raises TypeMismatch for a
        mesh that does not fit, and if the Learner has a step of its own."""
        if self._own_step is not None:
            hint = "pass a loss, or give your own burn.train.step the mesh"
            raise TypeMismatch("a Learner with a step of its own runs on one device", [Problem("step=", hint=hint)])
        self.mesh = mesh
        self._step, self._valid = self._compiled_step(self._how), None
        return self

    def gather(self) -> None:
        """Brings parameters and the optimizers' states to this process's memory, where divided ones can be read. Every process of
        the training calls it."""
        for _, tensor in [*self.model.named_parameters(), *self.named_buffers()]:
            if (held := tensor.on_mesh) is not None:
                tensor.assign(held.gathered())

    def _check(self, metrics: Sequence[Any], step: Any, how: Sequence[str]) -> None:
        names = ["loss", RATE, *(m.name for m in metrics if isinstance(m, (Metric, Gauge)))]
        strangers = [m for m in metrics if not isinstance(m, (Metric, Gauge))]
        problems = [Problem(f"{m!r} is no metric", hint="write Accuracy(), an instance") for m in strangers]
        twice = sorted({n for n in names if names.count(n) > 1})
        problems += [Problem(f"two metrics are called '{n}'", hint="give one name=...") for n in twice]
        wrong = [o for o in self.optimizers.values() if not isinstance(o, Optimizer)]
        hint = "write optim.AdamW(model), an instance of the model's parameters"
        problems += [Problem(f"{o!r} is no optimizer of burn.optim", hint=hint) for o in wrong]
        if step is None and len(self.optimizers) != 1:
            problems.append(Problem("several optimizers need a step of one's own", hint="step=..., or optim.Combined"))
        if step is not None and how:
            problems.append(Problem(f"{', '.join(how)}: the affair of the step that is given"))
        problems += [Problem(f"an observer is called, and {o!r} cannot be") for o in self.observers if not callable(o)]
        problems += self.lost(n for n in self.keep.metrics if "/" not in n)  # those of named sets are known in `fit`
        if problems:
            raise TypeMismatch("this makes no Learner", problems)

    def lost(self, names: Iterable[str], splits: Sequence[str] = ()) -> list[Problem]:
        """Errors for metrics whose best checkpoint is to be kept and that are none."""
        better = self.better_of(splits)
        known = {**better, **{f"{side}.{n}": b for side in ("train", "valid") for n, b in better.items()}}
        found = [n for n in names if n not in known]
        return [Problem(f"the best of '{n}' is to be kept, which is no metric", hint=near(n, known)) for n in found]

    def _check_modes(self, accumulate: int, precision: str, mesh: Mesh | None) -> None:
        problems = []
        if self.group < 1:
            problems.append(Problem(f"accumulate_batches is {self.group}, which is less than 1"))
        if self.group > 1 and accumulate > 1:
            problems.append(Problem("accumulate and accumulate_batches: batches are parts already"))
        if self.group > 1 and mesh is not None:
            problems.append(Problem("accumulate_batches: gradients between batches are on one device, not on a mesh"))
        if self.anomaly not in ("", "nan", "inf"):
            problems.append(Problem(f"anomaly is {self.anomaly!r}", hint='True, "nan" or "inf"'))
        if self.anomaly and mesh is not None:
            problems.append(Problem("anomaly: checks are for one device, not for a mesh"))
        if self.anomaly and precision == "float16":
            problems.append(Problem("anomaly: float16's gradients overflow by design", hint='precision="bfloat16"'))
        if problems:
            raise TypeMismatch("this makes no Learner", problems)

    def checking(self) -> AbstractContextManager[None]:
        """Inside, steps and validation are checked as `anomaly` says."""
        return checking(self.anomaly) if self.anomaly else nullcontext()

    # ---- training ------------------------------------------------------------------------------------------------------
    def fit(
        self,
        train: Data,
        valid: Data | Mapping[str, Data] | None = None,
        *,
        epochs: int,
        resume: bool | str | os.PathLike[str] = False,
        overwrite: bool = False,
        fast_dev_run: bool | int = False,
    ) -> Summary:
        """Trains up to `epochs` epochs in total, including those of a resumed training. Returns a summary.

        - `train`, `valid`: batches, see burn/train/batches.py. `valid` may be a dictionary of named sets: the values of each are
          called "<set>/<metric>", and those of the first also "<metric>".
        - `resume`: continues from the folder's last checkpoint, if there is one, or from a path. The result has the bits of a
          training without interruption.
        - `overwrite`: starts a new training in a folder that already has one.
        - `fast_dev_run`: tries everything with one batch (or so many) of training and of each set of validation. Nothing is
          written, observers that log or stop are not called, and all state is as before afterwards.

        Ctrl-C and SIGTERM finish the step, save, and return; a second one raises KeyboardInterrupt. Raises TrainingError for a
        NaN or infinite loss. Raises ModelError for checkpoints that cannot be written or read, or belong to another model. The
        error of a batch that does not fit names its position."""
        from burn.train.fitting import Fitting

        if not isinstance(epochs, int) or epochs < 1:
            raise TypeMismatch("fit trains for at least one epoch", [f"not {epochs!r}"])
        limit = int(fast_dev_run)
        if limit < 0 or (limit and (resume or overwrite)):
            problem = f"fast_dev_run is {fast_dev_run!r}, resume {resume!r}, overwrite {overwrite!r}"
            raise TypeMismatch("fast_dev_run takes a number of batches, and neither resumes nor overwrites", [problem])
        held_out = None if valid is None else Splits(valid, self.mesh, limit)
        source = Source(train, "training", self.mesh, self.group, limit)
        if not limit:
            return Fitting(self, source, held_out, epochs).run(resume, overwrite)
        with unchanged(self, [source, *(held_out.sources.values() if held_out else ())]):
            return Fitting(self, source, held_out, 1, trial=True).run(False, False)

    def find_rate(
        self, train: Data, *, low: float = 1e-7, high: float = 1.0, steps: int = 100, diverged: float = 4.0
    ) -> RateCurve:
        """Trains for some steps with learning rates that grow from `low` to `high`, and returns the rates and losses, with a
        suggestion: `learner.find_rate(batches).suggestion`. Ends early if the smoothed loss is more than `diverged` times its
        lowest value. All state is as before afterwards. (arXiv:1506.01186)

        Raises TypeMismatch if a schedule sets the learning rate, and with several optimizers."""
        return find_rate(self, Source(train, "training", self.mesh, self.group), low, high, steps, diverged)

    def must_be_free(self, resume: Any = False, overwrite: bool = False) -> None:
        """Raises ModelError for a folder with a training, unless `resume` or `overwrite` is set."""
        last = None if self.folder is None else checkpoints.newest(self.folder)
        if last is not None and not resume and not overwrite:
            hint = "resume=True goes on with it, overwrite=True begins anew"
            problem = Problem(f"its last checkpoint is {last.name}", hint=hint)
            raise ModelError(f"{self.folder} has a training already", [problem])

    def evaluate(self, data: Data | Mapping[str, Data]) -> dict[str, float]:
        """The loss and metrics of the model as it is, over all batches, in inference mode. data: see `fit`."""
        splits = Splits(data, self.mesh)
        found: dict[str, dict[str, float]] = {}
        with self.inference(), self.checking():
            for name, source in splits.sources.items():
                tally = Tally(self.metrics)
                for batch in source.batches(1):
                    self.valid_step(batch, tally)
                found[name] = tally.values()
        return splits.named(found)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Takes from a checkpoint the model's parameters and, if an optimizer averages them (`optim.EMA`), the averages; those
        that the checkpoint lacks begin anew. Raises ModelError, with a report, and then changes nothing."""
        saved = checkpoints.read(path)
        frozen = set(saved.facts.get("frozen") or ())  # their averages had no effect
        taken = []
        for name, optimizer in self.optimizers.items():
            if isinstance(optimizer, Averaged):
                state = saved.arrays(f"optimizer.{name}" if name else "optimizer")
                taken.append((optimizer, optimizer._averages_of(state, frozen)))
        self.model.load(saved.part("model"), adapter=None)
        for optimizer, averages in taken:
            optimizer._take(averages)

    # ---- batches -------------------------------------------------------------------------------------------------------
    def train_step(self, batch: Any, tally: Tally) -> tuple[dict[str, float], int, float]:
        """Moves the parameters; the values of the batch, how many examples it had, and the learning rate."""
        if isinstance(batch, Several):
            return self._several_step(batch, tally)
        args, kwargs = batches.arguments(batch)
        count = batches.examples(args, kwargs)
        if self._own_step is None:
            assert self._step is not None
            self.objective.arguments(args, kwargs)
            loss, counts = self._step(*args, **kwargs)
            rate, parts = float(host(counts.pop(RATE)).reshape(-1)[0]), self._step.parts(args, kwargs)
        else:
            rate, parts = _rate(next(iter(self.optimizers.values()))), 1
            outcome = Outcome.of(self._own_step(*args, **kwargs), "a step")
            loss, counts = outcome.loss, self._counts(outcome)
        value = float(host(loss))
        self.lacks_targets = bool((host(counts.get(LOSS, {}).get("weights", 1.0)) == 0).any())
        values = tally.add(value, count, counts, parts) if math.isfinite(value) else {"loss": value}
        return values, count, rate

    def _several_step(self, group: Several, tally: Tally) -> tuple[dict[str, float], int, float]:
        assert self._step is not None
        given = [batches.arguments(batch) for batch in group]
        for args, kwargs in given:
            self.objective.arguments(args, kwargs)
        given = [pair for pair in given if batches.examples(*pair)] or given  # as the step leaves them out
        loss, counted = self._step.over([kwargs or args for args, kwargs in given])
        value, own, rate = float(host(loss)), Tally(self.metrics), 0.0
        self.lacks_targets = bool(sum(host(c.get(LOSS, {}).get("weights", 1.0)) for c in counted).min() == 0)  # type: ignore[union-attr]
        for (args, kwargs), counts in zip(given, counted, strict=True):
            rate = float(host(counts.pop(RATE)).reshape(-1)[0])
            if math.isfinite(value):
                for one in (own, tally):
                    one.add(value, batches.examples(args, kwargs), counts)
        count = sum(batches.examples(*pair) for pair in given)
        if not math.isfinite(value):
            return {"loss": value}, count, rate
        values = {n: v for n, v in own.values().items() if n == "loss" or own.metrics[n].of_batch}
        return {**values, "loss": value}, count, rate

    def valid_step(self, batch: Any, tally: Tally) -> dict[str, float]:
        """The values of a batch, nothing moved."""
        args, kwargs = batches.arguments(batch)
        given = self.objective.arguments(args, kwargs)
        if self._valid is None:

            def valid(*args: Any, **kwargs: Any) -> Any:
                outcome = self.objective.outcome(self.model, args, kwargs, zero=True)
                return outcome.loss, {**outcome.counts(self.metrics), LOSS: outcome.shares((args, kwargs))}

            partition = None if self.mesh is None else Partition.of(self.mesh, self.model, self.optimizers.values())
            self._valid = of_batches(
                valid, self.objective.signature, "validation", given, partition=partition, whole_rest=True
            )
        loss, counts = self._valid(*args, **kwargs)
        return tally.add(float(host(loss)), batches.examples(args, kwargs), counts)

    @contextmanager
    def inference(self) -> Iterator[None]:
        """Inside, the model is in inference mode, with the averages of its weights if an optimizer keeps some (`optim.EMA`); then
        every module is in the mode that it was in."""
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.eval()
        try:
            with ExitStack() as stack:
                for optimizer in self.optimizers.values():
                    if isinstance(optimizer, Averaged):
                        stack.enter_context(optimizer.swapped())
                yield
        finally:
            for module, mode in modes:
                module.training = mode

    def _compiled_step(self, how: Mapping[str, Any]) -> Any:
        (optimizer,) = self.optimizers.values()

        def counted(model: Module, *args: Any, **kwargs: Any) -> Any:
            outcome = self.objective(model, *args, **kwargs)
            told = {LOSS: outcome.shares((args, kwargs)), RATE: _traced_rate(optimizer)}
            return outcome.loss, {**outcome.counts(self.metrics), **told}

        own = [*self.objective.signature.parameters.values()]
        counted.__signature__ = self.objective.signature.replace(parameters=[_MODEL, *own])  # type: ignore[attr-defined]
        counted.__name__ = self.objective.name
        return make_step(self.model, counted, optimizer, has_aux=True, mesh=self.mesh, **how)

    def _counts(self, outcome: Outcome) -> Any:
        """The metrics' counts of a custom step's outcome, computed by a small separate program."""
        if not self.metrics:
            return {}
        if self._counting is None:

            def counting(prediction: Any, target: Any) -> Any:
                return Outcome(None, prediction, target).counts(self.metrics)

            given = {"prediction": outcome.prediction, "target": outcome.target}
            if outcome.prediction is None:
                outcome.counts(self.metrics)  # which says what is missing
            self._counting = of_batches(counting, inspect.signature(counting), "metrics", given)
        return self._counting(outcome.prediction, outcome.target)

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """The buffers of the optimizers and the step, by their names in a checkpoint."""
        for name, tensor in states.named(self.model, self.optimizers, self.step):
            if not name.startswith("model."):
                yield name, tensor  # type: ignore[misc]  # all but the model's are buffers

    @property
    def step(self) -> Any:
        """The function that is called with each batch: `burn.train.step` of the loss, or the given one."""
        return self._step if self._own_step is None else self._own_step

    @property
    def has_own_step(self) -> bool:
        """True if it was given a step, which returns the results of a loss function."""
        return self._own_step is not None

    @property
    def name(self) -> str:
        """The run's: what was given, or the folder's, or the model's."""
        return self._name or (self.folder.name if self.folder is not None else type(self.model).__name__)

    @property
    def programs(self) -> int:
        """How many programs the step was compiled to: more than a few cost more than they give."""
        return self._step.programs if self._step is not None else 0

    def communication(self, *args: Any, **kwargs: Any) -> Communication:
        """See `Step.communication`."""
        if self._step is None:
            raise TypeMismatch("a step of one's own says itself what it sends", ["see burn.train.Step.communication"])
        return self._step.communication(*args, **kwargs)

    @property
    def better(self) -> dict[str, Better]:
        """The better direction of every reported metric."""
        return self.better_of(())

    def better_of(self, splits: Sequence[str]) -> dict[str, Better]:
        """The better direction of every reported metric, also of named sets of validation data."""
        own: dict[str, Better] = {"loss": "min", **{m.name: m.better for m in self.metrics}}
        named: dict[str, Better] = {f"{split}/{name}": b for split in splits for name, b in own.items()}
        return {**own, **{g.name: g.better for g in self.gauges}, **named}

    def __repr__(self) -> str:
        parts = [f"{name}={value!r}" if name else repr(value) for name, value in self.optimizers.items()]
        return f"Learner({type(self.model).__name__}, {self.objective.name}, {', '.join(parts)})"


def _traced_rate(optimizer: Optimizer) -> Tensor:
    """The first group's learning rate of the step that is made, as part of it."""
    group = optimizer.groups[0]
    rate = group.rate * 1.0 if group.schedule is None else group.schedule(optimizer.steps.astype("float64"))
    return rate if isinstance(rate, Tensor) else full((), float(rate), "float64")


def _rate(optimizer: Optimizer) -> float:
    group = optimizer.groups[0]
    return (
        optimizer.lr
        if group.schedule is None
        else float(group.schedule(constant(float(on_host(optimizer.steps.elements)))))
    )
