"""What a profiled run tells: time, arithmetic and traffic by kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burn.runtime import sizes
from burn.runtime.artefact import KernelInfo


@dataclass(frozen=True)
class ProfileRow:
    """One kernel's part of an inference: figures are for one inference, averaged over the profile's."""

    kernel: KernelInfo
    calls: float
    seconds: float
    flops: float | None  # None where they depend on sizes that only the run knew
    bytes: float | None

    @property
    def gflops_per_second(self) -> float | None:
        return self.flops / self.seconds / 1e9 if self.flops is not None and self.seconds else None

    @property
    def gigabytes_per_second(self) -> float | None:
        return self.bytes / self.seconds / 1e9 if self.bytes is not None and self.seconds else None


@dataclass(frozen=True)
class Profile:
    """Rows in the kernels' order; those that never ran are left out."""

    rows: tuple[ProfileRow, ...]
    inferences: int

    @property
    def seconds(self) -> float:
        """Time in kernels, an inference."""
        return sum(row.seconds for row in self.rows)

    @staticmethod
    def of(
        kernels: Sequence[KernelInfo], totals: Sequence[tuple[int, int]], inferences: int, symbols: Mapping[str, int]
    ) -> Profile:
        """From (calls, nanoseconds) by kernel."""
        rows = []
        for kernel, (calls, nanoseconds) in zip(kernels, totals, strict=True):
            if not calls:
                continue
            each = calls / inferences
            flops, moved = (_evaluate(text, symbols) for text in (kernel.flops, kernel.bytes))
            rows.append(
                ProfileRow(
                    kernel,
                    each,
                    nanoseconds / inferences / 1e9,
                    None if flops is None else flops * each,
                    None if moved is None else moved * each,
                )
            )
        return Profile(tuple(rows), inferences)


def _evaluate(text: str, symbols: Mapping[str, int]) -> int | None:
    try:
        return sizes.parse(text).evaluate(symbols)
    except (KeyError, ZeroDivisionError):
        return None
