"""Metrics. The compiled step computes their counts of a batch, so a metric needs no second pass.

    burn.train.Learner(model, loss, optimizer, metrics=[metrics.Accuracy(), metrics.TopK(5), metrics.Throughput()])

The loss is always reported as "loss". Training metrics use the predictions of each step before its update of the parameters.
Your own metric is a subclass of `Metric` (base.py), or of `Gauge` for measurements of the machine.
"""

from burn.train.metrics.base import Metric, Tally
from burn.train.metrics.classification import (
    Accuracy,
    ConfusionMatrix,
    Dice,
    FBeta,
    HammingScore,
    Precision,
    Recall,
    TopK,
)
from burn.train.metrics.image import MSSSIM, PSNR, SSIM
from burn.train.metrics.machine import CpuLoad, Gauge, GpuLoad, Memory, Throughput
from burn.train.metrics.ranking import AUCPR, AUROC
from burn.train.metrics.regression import MAE, R2, RMSE
from burn.train.metrics.text import BLEU, CER, ROUGEL, WER, Perplexity

__all__ = [
    "Metric", "Tally", "Gauge",
    "Accuracy", "TopK", "Precision", "Recall", "FBeta", "ConfusionMatrix", "HammingScore", "Dice", "AUROC", "AUCPR",
    "Perplexity", "CER", "WER", "BLEU", "ROUGEL", "PSNR", "SSIM", "MSSSIM", "MAE", "RMSE", "R2",
    "Throughput", "Memory", "CpuLoad", "GpuLoad",
]  # fmt: skip
