"""Post-training quantisation: of float ONNX models to integer ones, and of modules' weights.

Modules:

    static.py     QDQ: activations by calibrated ranges, weights by output channel
    dynamic.py    activations by their own range in every run: no data needed
    weights.py    weights alone, in blocks of 4 or 8 bits
    modules.py    the same for the linear layers of a burn.nn module
    calibrate.py  the ranges of tensors over samples
    samples.py    inputs from .npz and .npy files and folders
    graph.py      an ONNX graph being rewritten
    accuracy.py   comparison of two models' outputs
"""

from burn.quantization.accuracy import Agreement, compare
from burn.quantization.calibrate import METHODS
from burn.quantization.dynamic import quantize_dynamic
from burn.quantization.graph import save
from burn.quantization.modules import quantize_module
from burn.quantization.samples import read_samples
from burn.quantization.static import quantize_static
from burn.quantization.weights import quantize_weights

__all__ = [
    "METHODS",
    "Agreement",
    "compare",
    "quantize_dynamic",
    "quantize_module",
    "quantize_static",
    "quantize_weights",
    "read_samples",
    "save",
]
