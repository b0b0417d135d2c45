"""Trials: training after which all state is as before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from burn.train import randomness
from burn.train.batches import Source

if TYPE_CHECKING:
    from burn.train.learner import Learner


@contextmanager
def unchanged(learner: Learner, sources: Sequence[Source] = ()) -> Iterator[None]:
    """Restores the model, the optimizers, the step's buffers, random generators and the positions of data afterwards."""
    model = learner.model
    before = [(p, p.weight, p.placement) for _, p in model.named_parameters()]
    trainable = [(p, p.trainable) for p in model.parameters()]
    states = {name: optimizer.state_dict() for name, optimizer in learner.optimizers.items()}
    buffers = [(buffer, buffer.array) for name, buffer in learner.named_buffers() if name.startswith("step.")]
    positions = [(source, source.position()) for source in sources if source.has_position]
    own, others = randomness.own(), randomness.others()
    try:
        yield
    finally:
        for p, weight, where in before:
            p.assign(weight)
            p.move(where)
        for p, value in trainable:
            p.trainable = value
        for name, optimizer in learner.optimizers.items():
            optimizer.load_state_dict(states[name])
        for buffer, array in buffers:
            buffer.assign(array)
        for source, position in positions:
            source.go_to(position)
        randomness.go_to(own)
        randomness.set_others(others)
