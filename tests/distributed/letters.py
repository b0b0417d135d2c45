"""The transformer of examples/training/shakespeare.py, small: `burn train tests/distributed/letters.py:Letters`."""

from __future__ import annotations

import os
import signal

import burn
from burn import data, optim
from burn.train import Keep
from burn.train.events import Control, Event, Stepped
from tests.train.test_examples import example

shakespeare = example("shakespeare")


class Letters(burn.train.Experiment):
    """sharded: parameters and state are divided. dropout: of the transformer. stops, rank, by: that rank gets a signal after so
    many steps."""

    sharded: bool = True
    dropout: float = 0.1
    stops: int = 0
    rank: int = 0
    by: str = "SIGKILL"

    def learner(self) -> burn.train.Learner:
        letters = shakespeare.Letters("".join(sorted(set(shakespeare.SONNET))))
        model = shakespeare.Gpt(len(letters.known), width=16, heads=2, layers=1, context=16)
        for layer in model.modules():
            if isinstance(layer, burn.nn.Dropout):
                layer.p = self.dropout
        optimizer = optim.AdamW(model, lr=optim.cosine(4e-3, total=40, warmup=2), weight_decay=0.1)
        return burn.train.Learner(
            model, shakespeare.loss, optimizer, clip_norm=1.0, keep=Keep(last=4, every=3), observers=[self.stop]
        )

    def stop(self, event: Event, control: Control) -> None:
        if isinstance(event, Stepped) and event.step == self.stops and burn.distributed.rank() == self.rank:
            os.kill(os.getpid(), getattr(signal, self.by))

    def data(self) -> tuple[data.Loader, None]:
        letters = shakespeare.Letters("".join(sorted(set(shakespeare.SONNET))))
        rows = data.Memory(letters.encode(shakespeare.SONNET)).window(17, 8)
        return data.Loader(rows.take(48), 8, shuffle=True, seed=1), None

    def mesh(self) -> burn.Mesh | None:
        if burn.distributed.count() == 1:
            return None
        return burn.Mesh({"data": -1}, fully_sharded="data" if self.sharded else None)
