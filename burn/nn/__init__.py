"""The layers that models are written with. Enter at `Module`.

Layers hold parameters and build ops when they are called in a traced function; nothing is computed here.
"""

from __future__ import annotations

from typing import Any

from burn.nn import activation as _activation
from burn.nn.activation import Dropout, Flatten, PReLU
from burn.nn.attention import MultiheadAttention
from burn.nn.containers import ModuleList, Sequential
from burn.nn.layers import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Embedding,
    Linear,
)
from burn.nn.module import Module
from burn.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from burn.nn.parameter import Buffer, Parameter
from burn.nn.pool import AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d
from burn.nn.recurrent import GRU, LSTM, RNN

__all__ = [
    "Module", "ModuleList", "Sequential", "Parameter", "Buffer",
    "Linear", "Embedding", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "LayerNorm", "RMSNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm",
    "LSTM", "GRU", "RNN", "MultiheadAttention",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "Dropout", "Flatten", "PReLU",
]  # fmt: skip
__all__ += list(_activation.FUNCTIONS)


def __getattr__(name: str) -> Any:
    if name in _activation.FUNCTIONS:
        return getattr(_activation, name)
    raise AttributeError(f"there is no burn.nn.{name}")
