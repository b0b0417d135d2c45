"""Training: `step` is a model, a loss and an optimizer as one compiled program, `Learner` makes epochs of it.

step = burn.train.step(model, loss, burn.optim.AdamW(model, lr=1e-3))
for x, y in batches:
    value = step(x, y)                # the model's parameters have moved

learner = burn.train.Learner(model, nn.CrossEntropyLoss(), burn.optim.AdamW(model), metrics=[metrics.Accuracy()])
print(learner.fit(train, valid, epochs=10))
"""

from burn.train import events, metrics
from burn.train.checkpoints import Keep
from burn.train.events import Control, Event, Observer, Summary
from burn.train.experiment import Experiment
from burn.train.fitting import TrainingError
from burn.train.learner import Learner
from burn.train.logs import JsonLines, TensorBoard
from burn.train.progress import ProgressLine
from burn.train.rates import RateCurve
from burn.train.statistics import update_statistics
from burn.train.step import Step, step
from burn.train.stopping import EarlyStopping, Feed
from burn.train.trackers import MLflow, Wandb

__all__ = [
    "Step", "step", "Learner", "Experiment", "metrics", "Keep", "EarlyStopping", "Feed",
    "JsonLines", "TensorBoard", "Wandb", "MLflow", "ProgressLine", "RateCurve", "update_statistics",
    "events", "Control", "Event", "Observer", "Summary", "TrainingError",
]  # fmt: skip
