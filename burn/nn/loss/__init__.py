"""Loss functions. A file for each family; start at `base.Loss`.

loss = nn.CrossEntropyLoss(label_smoothing=0.1)
loss(scores, target)                                # reduction: "mean", "sum" or "none", as in torch
"""

from __future__ import annotations

from burn.nn.loss.base import Loss
from burn.nn.loss.classification import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    KLDivLoss,
    MultiMarginLoss,
    NLLLoss,
    SoftMarginLoss,
)
from burn.nn.loss.distance import CosineEmbeddingLoss, HingeEmbeddingLoss, MarginRankingLoss, TripletMarginLoss
from burn.nn.loss.regression import (
    GaussianNLLLoss,
    HuberLoss,
    L1Loss,
    LpLoss,
    MSELoss,
    PoissonNLLLoss,
    SmoothL1Loss,
)
from burn.nn.loss.sequence import CTCLoss, RNNTLoss

__all__ = [
    "Loss",
    "MSELoss", "L1Loss", "LpLoss", "SmoothL1Loss", "HuberLoss", "GaussianNLLLoss", "PoissonNLLLoss",
    "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss", "MultiMarginLoss", "SoftMarginLoss",
    "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss",
    "CTCLoss", "RNNTLoss",
]  # fmt: skip
