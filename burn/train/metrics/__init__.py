"""Metrics. What they count of a batch is computed in the compiled step, so that a metric costs no second pass.

    burn.train.Learner(model, loss, optimizer, metrics=[metrics.Accuracy(), metrics.TopK(5), metrics.Throughput()])

The loss is always told, as "loss". Metrics of training are of the predictions that each step made before it moved the parameters.
A metric of one's own is a subclass of `Metric` (base.py), or of `Gauge` where it is the machine that is measured.
"""

from burn.train.metrics.base import Metric, Tally
from burn.train.metrics.classification import Accuracy, ConfusionMatrix, FBeta, Precision, Recall, TopK
from burn.train.metrics.machine import CpuLoad, Gauge, GpuLoad, Memory, Throughput
from burn.train.metrics.ranking import AUROC
from burn.train.metrics.regression import MAE, R2, RMSE
from burn.train.metrics.text import CER, WER, Perplexity

__all__ = [
    "Metric", "Tally", "Gauge",
    "Accuracy", "TopK", "Precision", "Recall", "FBeta", "ConfusionMatrix", "AUROC",
    "Perplexity", "CER", "WER", "MAE", "RMSE", "R2",
    "Throughput", "Memory", "CpuLoad", "GpuLoad",
]  # fmt: skip
