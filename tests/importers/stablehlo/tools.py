"""Tools of the installation that the tests need."""

from __future__ import annotations

import pytest

from burn.importers.stablehlo import parsing

NEEDS_TORCH_MLIR_OPT = pytest.mark.skipif(
    parsing._torch_mlir_opt() is None, reason="this installation of torch-mlir has no torch-mlir-opt"
)
"""Text without jaxlib, and quantized types, which jaxlib's parser refuses."""
