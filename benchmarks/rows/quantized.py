"""Quantised ONNX files of a float model: by `burn quantize` and by ONNX Runtime's tools, with the same calibration samples."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx

from burn.quantization import quantize_dynamic, quantize_static, save

Sample = dict[str, np.ndarray]

Maker = Callable[[Path, Path, Sequence[Sample]], None]
"""Quantises the model of the first file into the second, with samples."""

MATMULS = ("MatMul", "Gemm")
"""The quantised operators of transformers. ONNX Runtime's default, all operators, gives masked scores of attention, -3.4e38, a
scale of 1e36: all other scores become 0, in any engine."""


def burn_static(path: Path, made: Path, samples: Sequence[Sample]) -> None:
    save(quantize_static(onnx.load(path), samples), made)


def burn_dynamic(path: Path, made: Path, samples: Sequence[Sample]) -> None:
    save(quantize_dynamic(onnx.load(path)), made)


def ort_static(form: str, activations: str, operators: Sequence[str] = ()) -> Maker:
    """form: QDQ or QOperator; activations: the tool's name of the type; operators: quantised ones, by default all supported."""

    def quantise(path: Path, made: Path, samples: Sequence[Sample]) -> None:
        from onnxruntime import quantization as tools

        class Reader(tools.CalibrationDataReader):
            def __init__(self) -> None:
                self.left = iter(samples)

            def get_next(self) -> Sample | None:
                return next(self.left, None)

        with prepared(path) as source:
            tools.quantize_static(
                source,
                made,
                Reader(),
                quant_format=tools.QuantFormat[form],
                op_types_to_quantize=list(operators) or None,
                per_channel=True,
                activation_type=tools.QuantType[activations],
                weight_type=tools.QuantType.QInt8,
            )

    return quantise


def ort_dynamic(path: Path, made: Path, samples: Sequence[Sample]) -> None:
    from onnxruntime import quantization as tools

    with prepared(path) as source:
        model = onnx.load(source)
    del model.graph.value_info[:]  # the tool transposes weights of Gemm, and then refuses their former shapes
    tools.quantize_dynamic(model, made, per_channel=True, weight_type=tools.QuantType.QInt8)


@contextmanager
def prepared(path: Path) -> Iterator[Path]:
    """The file after ONNX Runtime's preprocessing: shapes known, batch norms folded."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "prepared.onnx"
        quant_pre_process(path, made, skip_symbolic_shape=True)  # it fails on BERT's sizes
        yield made
