"""Helpers of numpy and burn alike: they bring operands into the domain and the rank of a function."""

from __future__ import annotations

from typing import Any


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


class Side:
    """Base of the sides."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def domain(self, kind: str, x: Any) -> Any:
        """x brought to where a row of the table is defined."""
        whole = not str(x.dtype).startswith(("float", "bfloat"))
        if str(x.dtype) == "bool" or kind in ("any", "special", "gaps", "halves"):
            return x
        if kind in ("small", "few"):
            return self.clip(x, 0, 3)
        if kind == "index 7":
            return self.op("%", self.astype(x, "int64"), 7)
        if kind == "not zero":
            return self.where(self.op("==", x, 0), 1, x)
        if kind == "signed":  # the sign of a zero depends on rounding, and that of NaN is undefined
            return self.where(self.op("|", self.op("<", x, 0), self.op(">", x, 0)), x, 1)
        low, high = {"unit": (-0.9, 0.9), "above one": (1.1, 5.0), "positive": (0.3, 3.0), "near one": (0.8, 1.2)}[kind]
        return (
            self.clip(x, 0 if kind == "unit" else 1, 1 if kind == "unit" else 2) if whole else self.clip(x, low, high)
        )

    def ranked(self, x: Any, rank: int) -> Any:
        """x with so many axes: the first ones joined, or new ones in front."""
        while x.ndim > max(rank, 1):
            x = self.reshape(x, x.shape[0] * x.shape[1], *x.shape[2:])
        if rank == 0:
            return self.sum(self.astype(x, "float32"))
        while x.ndim < rank:
            x = self.unsqueeze(x, 0)
        return x
