"""Where a training is: what of it a checkpoint holds, and how it is found again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from burn.dialect.weights import Weight
from burn.distributed import processes
from burn.distributed.engine import Held
from burn.errors import ModelError
from burn.nn.parameter import Parameter
from burn.train import randomness, states
from burn.train.batches import Source, Splits
from burn.train.checkpoints import Saved, lent, weight
from burn.train.events import Better
from burn.train.metrics import Tally
from burn.train.stopping import Chosen

if TYPE_CHECKING:
    from burn.train.learner import Learner


class Position:
    """A position between two steps.

    - `epoch`, `batch`, `step`: the epoch, the number of its completed batches, and of all completed steps.
    - `trained`: only validation of the epoch is left.
    - `tally`: the epoch's counts.
    - `ends`: the last steps of epochs with a checkpoint.
    - `others`: states of other libraries' generators at the start of the epoch.
    - `before_valid`: position of the validation data before its next iteration."""

    def __init__(
        self, learner: Learner, train: Source, valid: Splits | None, better: Mapping[str, Better] | None = None
    ) -> None:
        """better: the better direction of every metric that is reported."""
        self._learner, self._train, self._valid = learner, train, valid
        self._better = learner.better if better is None else better
        self.epoch, self.batch, self.step, self.trained = 1, 0, 0, False
        self.tally = Tally(learner.metrics)
        self.history: list[dict[str, Any]] = []
        self.ends: dict[int, int] = {}
        self.others = randomness.others()
        self.before_valid = valid.position() if valid is not None else None

    def next_epoch(self) -> None:
        self.epoch, self.batch, self.trained = self.epoch + 1, 0, False
        self.tally = Tally(self._learner.metrics)

    def validated(self) -> None:
        """The validation data is where the next validation begins."""
        self.before_valid = self._valid.position() if self._valid is not None else None

    def best(self, name: str) -> tuple[float, int]:
        """The best value of a metric and its epoch, 0 where there is none."""
        chosen = Chosen(name)
        less = chosen.better(self._better) == "min"
        values = [(chosen.of_values(row["train"], row["valid"]), row["epoch"]) for row in self.history]
        known = [(v, e) for v, e in values if not math.isnan(v)]
        return (min if less else max)(known, key=lambda pair: pair[0]) if known else (math.nan, 0)

    # ---- into a checkpoint ---------------------------------------------------------------------------------------------
    def named(self) -> Iterator[tuple[str, Parameter]]:
        """Parameters and buffers by their names in a checkpoint."""
        yield from ((f"model.{path}", p) for path, p in self._learner.model.named_parameters())
        yield from self._learner.named_buffers()

    def tensors(self) -> dict[str, Weight | Held]:
        """To be written at once: the next step writes over them. Of a training on several processes, as they lie on the mesh."""
        self._learner.model._must_be_savable()
        found: dict[str, Weight | Held] = {}
        for name, p in self.named():
            held = p.on_mesh
            found[name] = lent(p) if held is None or processes.current() is None else held
        return found | {f"metrics.{name}": weight(array) for name, array in self.tally.state_dict().items()}

    def facts(self) -> dict[str, Any]:
        """All that is no tensor, as plain values."""
        keeps = self._train.has_position
        again = (
            self.batch and not keeps and not self.trained
        )  # the epoch's data is gone through again from its beginning
        return {
            "model": type(self._learner.model).__name__,
            "epoch": self.epoch,
            "batch": self.batch,
            "step": self.step,
            "trained": self.trained,
            "history": self.history,
            "ends": sorted(self.ends.items()),
            "random": randomness.own(),
            "others": self.others if again else randomness.others(),
            "data": self._train.position(),
            "valid": self.before_valid,
            "frozen": [path for path, p in self._learner.model.named_parameters(False) if not p.trainable],
            "observers": [[type(o).__name__, o.state_dict()] for o in self._remembering()],
        }

    def _remembering(self) -> list[Any]:
        """The observers that have something to keep."""
        return [o for o in self._learner.observers if hasattr(o, "state_dict") and hasattr(o, "load_state_dict")]

    # ---- out of a checkpoint -------------------------------------------------------------------------------------------
    def restore(self, saved: Saved) -> None:
        """Puts model, optimizers, data and all else where they were. Raises ModelError, and leaves model and optimizers as they
        are then."""
        if processes.current() is not None:
            self._learner.gather()  # what is divided cannot be put back after an error
        learner = self._learner
        with states.kept_on_error(learner.model, learner.optimizers, learner.step, saved.path):
            learner.model.load(saved.part("model"), adapter=None)
            states.freeze(learner.model, saved.facts.get("frozen"))
            for name, optimizer in learner.optimizers.items():
                optimizer.load_state_dict(saved.arrays(f"optimizer.{name}" if name else "optimizer"))
            states.take_buffers(learner.step, saved)
            self._take_counts(saved)
            self._take_facts(saved)

    def _take_counts(self, saved: Saved) -> None:
        counted = saved.arrays("metrics")
        if not counted:  # a step's own checkpoint counts nothing: the epoch's values are those of its rest
            return
        names = {name.rpartition(".")[0] for name in counted if "." in name}
        if saved.facts["batch"] and (differing := names ^ self.tally.metrics.keys()):
            text = f"{', '.join(sorted(differing))}: counted before or from now on, not both"
            raise ModelError(f"{saved.path} is of the middle of an epoch with other metrics", [text])
        self.tally.load_state_dict(counted)

    def _take_facts(self, saved: Saved) -> None:
        facts: Mapping[str, Any] = saved.facts
        self.epoch, self.batch, self.step = int(facts["epoch"]), int(facts["batch"]), int(facts["step"])
        self.trained = bool(facts["trained"])
        self.history = [dict(row) for row in facts["history"]]
        self.ends = {int(epoch): int(step) for epoch, step in facts["ends"]}
        names, given = [type(o).__name__ for o in self._remembering()], [name for name, _ in facts["observers"]]
        if names != given:
            text = f"it has the state of {', '.join(given) or 'none'}, there are {', '.join(names) or 'none'}"
            raise ModelError(f"{saved.path} was made with other observers", [text])
        for observer, (_, state) in zip(self._remembering(), facts["observers"], strict=True):
            observer.load_state_dict(state)
        if "data" in facts:  # a step's own checkpoint (states.py) has no position in data
            self._train.go_to(facts["data"])
        if self._valid is not None and self._valid.has_position and facts.get("valid") is not None:
            self._valid.go_to(facts["valid"])
        self.validated()
        if "others" in facts:
            randomness.set_others(facts["others"])
        randomness.go_to(facts["random"])
