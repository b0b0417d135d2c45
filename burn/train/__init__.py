"""Training: `step` is a model, a loss and an optimizer as one compiled program.

step = burn.train.step(model, loss, burn.optim.AdamW(model, lr=1e-3))
for x, y in batches:
    value = step(x, y)                    # the model's parameters have moved
"""

from burn.train.events import Control, Event, Observer, Summary
from burn.train.step import Step, step

__all__ = ["Control", "Event", "Observer", "Step", "Summary", "step"]
