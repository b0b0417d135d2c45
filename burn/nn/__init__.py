"""Layers of models. Start at `Module`.

Layers hold parameters and build ops when they are called. In a traced function they add the ops to its program. Elsewhere they
record them, and reading elements computes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burn.nn import adapt, init, loss
from burn.nn import function as _function
from burn.nn.activation import PReLU
from burn.nn.attention import CrossAttention, MultiheadAttention
from burn.nn.cache import KeyValueCache, LayerCache
from burn.nn.checks import Range
from burn.nn.config import Config, ConfigError
from burn.nn.containers import ModuleDict, ModuleList, Sequential
from burn.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    DeformConv2d,
)
from burn.nn.dropout import Dropout, Dropout1d, Dropout2d, Dropout3d, GaussianNoise
from burn.nn.feedforward import GEGLU, FeedForward, GatedLinear, ReGLU, SwiGLU
from burn.nn.function import *  # noqa: F403
from burn.nn.graph import Graph
from burn.nn.linear import Bilinear, CosineSimilarity, Embedding, Identity, Linear, PairwiseDistance
from burn.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    LpLoss,
    MarginRankingLoss,
    MSELoss,
    MultiMarginLoss,
    NLLLoss,
    PoissonNLLLoss,
    RNNTLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
)
from burn.nn.module import Layer, Module
from burn.nn.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
)
from burn.nn.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from burn.nn.parameter import Buffer, Parameter
from burn.nn.pool import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from burn.nn.position import LearnedPositions, RotaryEmbedding, SinusoidalPositions
from burn.nn.quantization import (
    BlockLinear,
    FakeQuantize,
    QuantConv1d,
    QuantConv2d,
    QuantConv3d,
    QuantizedWeight,
    QuantLinear,
)
from burn.nn.recurrent import GRU, LSTM, RNN
from burn.nn.resample import (
    Flatten,
    Fold,
    Interpolate1d,
    Interpolate2d,
    PixelShuffle,
    PixelUnshuffle,
    Unflatten,
    Unfold,
    Upsample,
)
from burn.nn.stacked import StackedGRU, StackedLSTM, StackedRNN
from burn.nn.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from burn.suggestions import suggestion

__all__ = [
    # base classes
    "Module", "Layer", "ModuleList", "ModuleDict", "Sequential", "Parameter", "Buffer", "Config", "ConfigError", "Range",
    "Graph", "adapt", "init", "loss",
    # linear and convolutional
    "Identity", "Linear", "Bilinear", "Embedding", "CosineSimilarity", "PairwiseDistance",
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "DeformConv2d",
    # normalisation and noise
    "LayerNorm", "RMSNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm", "LocalResponseNorm",
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "GaussianNoise",
    # sequences
    "LSTM", "GRU", "RNN", "StackedLSTM", "StackedGRU", "StackedRNN",
    "MultiheadAttention", "CrossAttention", "KeyValueCache", "LayerCache",
    "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer",
    "FeedForward", "GatedLinear", "SwiGLU", "GEGLU", "ReGLU",
    "RotaryEmbedding", "SinusoidalPositions", "LearnedPositions",
    # windows, sizes and borders
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "LPPool3d",
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
    "Upsample", "Interpolate1d", "Interpolate2d", "PixelShuffle", "PixelUnshuffle", "Unfold", "Fold", "Flatten", "Unflatten",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "CircularPad1d", "CircularPad2d", "CircularPad3d",
    # losses
    "MSELoss", "L1Loss", "LpLoss", "SmoothL1Loss", "HuberLoss", "GaussianNLLLoss", "PoissonNLLLoss",
    "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss", "MultiMarginLoss", "SoftMarginLoss",
    "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss", "CTCLoss", "RNNTLoss",
    # activations
    "BlockLinear", "FakeQuantize", "QuantConv1d", "QuantConv2d", "QuantConv3d", "QuantLinear", "QuantizedWeight",
    "PReLU",
]  # fmt: skip
__all__ += _function.__all__


if not TYPE_CHECKING:  # type checkers report unknown names themselves

    def __getattr__(name: str) -> Any:
        raise AttributeError(f"there is no burn.nn.{name}{suggestion('nn', name, __all__)}")
