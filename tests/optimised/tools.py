"""ONNX Runtime's tools applied to a file: optimise it, then quantise it. Each returns the new file."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer

from tests.models.case import random_inputs
from tests.optimised.models import HEADS, HIDDEN, Model

Tool = Callable[[Model, Path, Path], None]
LEVELS = onnxruntime.GraphOptimizationLevel
CALIBRATION = 4  # batches
UNTYPED = {"DefaultTensorType": onnx.TensorProto.FLOAT}
"""The assumed type of values that ONNX's shape inference does not cover: results of fused operators."""
SIGNED = quantization.QuantType.QInt8
"""Weights of this type get 7 bits: on CPUs without VNNI, ONNX Runtime's sums of products with uint8 saturate at 16 bits."""

logging.getLogger().setLevel(logging.ERROR)  # the tools log every node


class Unfit(Exception):
    """The tool is not for this model."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def plain(model: Model, source: Path, path: Path) -> None:
    path.write_bytes(source.read_bytes())


def _session(level: Any) -> Tool:
    """The graph that a session with optimisations runs."""

    def run(model: Model, source: Path, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(path)
        options.log_severity_level = 4
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    return run


def fused(model: Model, source: Path, path: Path) -> None:
    """onnxruntime.transformers.optimizer: attention, norms with their sums, embeddings."""
    if model.model_type is None:
        raise Unfit("the optimizer is for transformers")
    with _quiet():
        made = optimizer.optimize_model(str(source), model.model_type, HEADS, HIDDEN, opt_level=0)
        made.save_model_to_file(str(path))


OPTIMISERS: dict[str, Tool] = {
    "plain": plain,
    "basic": _session(LEVELS.ORT_ENABLE_BASIC),
    "extended": _session(LEVELS.ORT_ENABLE_EXTENDED),
    "all": _session(LEVELS.ORT_ENABLE_ALL),
    "fused": fused,
}


class _Batches(quantization.CalibrationDataReader):
    def __init__(self, model: Model) -> None:
        self.batches = iter([random_inputs(model.case, seed) for seed in range(CALIBRATION)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.batches, None)


def _dynamic(weights: quantization.QuantType, per_channel: bool = False) -> Tool:
    def run(model: Model, source: Path, path: Path) -> None:
        with _quiet():
            quantization.quantize_dynamic(
                source,
                path,
                weight_type=weights,
                per_channel=per_channel,
                reduce_range=weights == SIGNED,
                extra_options=UNTYPED,
            )

    return run


def _static(form: quantization.QuantFormat, activations: quantization.QuantType, per_channel: bool = False) -> Tool:
    def run(model: Model, source: Path, path: Path) -> None:
        with _quiet():
            quantization.quantize_static(
                source,
                path,
                _Batches(model),
                form,
                activation_type=activations,
                weight_type=SIGNED,
                per_channel=per_channel,
                reduce_range=True,
                extra_options=UNTYPED,
            )

    return run


def four_bits(model: Model, source: Path, path: Path) -> None:
    with _quiet():
        quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=16, is_symmetric=False)
        quantizer.process()
        quantizer.model.save_model_to_file(str(path))  # type: ignore[union-attr]


FORMS, TYPES = quantization.QuantFormat, quantization.QuantType
QUANTISERS: dict[str, Tool] = {
    "float": plain,
    "int8": _dynamic(TYPES.QInt8),
    "uint8": _dynamic(TYPES.QUInt8),
    "int8_channels": _dynamic(TYPES.QInt8, per_channel=True),
    "qdq": _static(FORMS.QDQ, TYPES.QInt8),
    "qdq_channels": _static(FORMS.QDQ, TYPES.QUInt8, per_channel=True),
    "qoperator": _static(FORMS.QOperator, TYPES.QUInt8),
    "bits4": four_bits,
}
