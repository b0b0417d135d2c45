"""Keys of a kernel's block choice on GPUs (`burn.codegen.tuning.choices`)."""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.triton.heuristics.sizes import power_of_two
from burn.codegen.tuning.choices import digest
from burn.dialect.dims import Dim, estimate
from burn.kernels.body import Kernel
from burn.kernels.text import kernel_text


def key(kernel: Kernel, values: Mapping[str, Dim]) -> str:
    """The key of a kernel's choice: its text, with sizes rounded up to powers of two. values: the values of sizes that are
    arguments."""
    sizes = (f"{name} {power_of_two(estimate(size))}" for name, size in values.items())
    return digest(kernel_text(kernel), *sizes)
