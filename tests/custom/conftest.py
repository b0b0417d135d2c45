"""The simulated GPU of tests/codegen/gpu."""

from tests.codegen.gpu.conftest import gpu

__all__ = ["gpu"]
