"""Differences from PyTorch that have a reason. Every row must still be needed."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

NAN = ("nan", "nan last")
ZERO = ("zeros", "minus zero", "one zero", "two zeros")
INFINITE = ("inf", "-inf", "infs", "all -inf")
DERIVATIVES = ("first", "second")


@dataclass(frozen=True)
class Reason:
    """functions: a pattern of names in the table; points and parts: where the difference is."""

    functions: str
    points: tuple[str, ...]
    parts: tuple[str, ...]
    why: str
    imported: bool = False  # of programs that come from PyTorch alone
    rounding: bool = False  # depends on the machine's matmuls: may not be seen

    def covers(self, function: str, point: str, part: str) -> bool:
        return fnmatchcase(function, self.functions) and point in self.points and part in self.parts


AT_NAN = (
    "at NaN no derivative exists: burn passes the cotangent on or gives NaN, PyTorch has 0 or NaN; the value is NaN"
)
NO_SECOND = "the second derivative at a kink or a pole does not exist: burn gives a finite one, PyTorch NaN"
LEFT = "the second derivative jumps at 0: burn takes the left side's, as both take the left side's first one"
OVERFLOW = "PyTorch's own formula overflows: infinity times 0. The limit is burn's"
INFINITIES = "products with infinities: the order of multiplication decides between infinity and NaN"
NORM = "PyTorch divides 0 by 0: its normalize without epsilon is no LpNormalization of ONNX, which gives 0"
SUMMED = "the order of a sum of 1e200, -1e200 and 1"
ROUNDED = "rounding of a difference that is 0"

EXPLAINED: tuple[Reason, ...] = (
    Reason("abs", NAN, ("first",), AT_NAN),
    Reason("sign", NAN, ("value",), "numpy's sign of NaN is NaN, PyTorch's is 0"),
    Reason("relu6", NAN, ("first",), AT_NAN),
    Reason("*elu*", NAN, DERIVATIVES, AT_NAN),
    Reason("nn.?ELU*", NAN, DERIVATIVES, AT_NAN),
    Reason("nn.ELU*", NAN, DERIVATIVES, AT_NAN),
    Reason("nn.MultiMarginLoss", (*NAN, *INFINITE), ("value", "first"), "PyTorch counts a margin that is NaN as 0"),
    Reason("hard_s*", NAN, ("first",), AT_NAN),
    Reason("nn.Hardtanh", NAN, ("first",), AT_NAN),
    Reason("nn.ReLU6", NAN, ("first",), AT_NAN),
    Reason("nn.Hardshrink", NAN, ("first",), AT_NAN),
    Reason("clip*", NAN, ("first",), AT_NAN),
    Reason("median", NAN, ("first",), AT_NAN),
    Reason("norm *", NAN, ("first",), AT_NAN),
    Reason("cumprod", ("nan last",), ("second",), AT_NAN),
    Reason("prod", NAN, ("second",), AT_NAN),
    Reason("nn.*L1Loss*", NAN, ("first",), AT_NAN),
    Reason("nn.MarginRankingLoss", NAN, ("first",), AT_NAN),
    Reason("thresholded_relu", NAN, ("value", "first"), "ONNX's is 0 wherever x > alpha does not hold, NaN included"),
    Reason("nn.AdaptiveMaxPool1d", NAN, DERIVATIVES, AT_NAN),
    Reason("nn.BCELoss of a sigmoid", NAN, ("value",), "PyTorch refuses a NaN, so that the test puts 0.5 in its place"),
    Reason("*elu", ZERO, ("second",), LEFT),
    Reason("nn.?ELU*", ZERO, ("second",), LEFT),
    Reason("nn.ELU*", ZERO, ("second",), LEFT),
    Reason("atan2*", (*ZERO, "tiny"), ("second",), NO_SECOND),
    Reason("cosine_similarity", ("zeros", "tiny"), ("second",), NO_SECOND),
    Reason("normalize", ("zeros", "tiny"), ("second",), NO_SECOND),
    Reason("norm *", (*ZERO, "tiny"), ("second",), NO_SECOND),
    Reason("hypot*", ZERO, DERIVATIVES, "PyTorch divides 0 by 0; burn gives the subgradient of least norm"),
    Reason("hypot(x, x)", ("tiny",), ("second",), ROUNDED),
    Reason("pow(x, c)", (*ZERO, "nan", "tiny"), ("second",), "x^0 is 1 for every x; PyTorch multiplies 0 by infinity"),
    Reason("lp_norm *", ("zeros",), ("value", "first", "second"), NORM),
    Reason("lp_norm *", ("tiny",), DERIVATIVES, NORM),
    Reason("mish", (*INFINITE, "saturated", "huge"), DERIVATIVES, OVERFLOW),
    Reason("gelu", ("huge",), ("second",), OVERFLOW),
    Reason("rms_norm", ("huge",), ("second",), OVERFLOW),
    Reason("nn.SoftMarginLoss", INFINITE, DERIVATIVES, OVERFLOW),
    Reason("div(x, x)", ("tiny",), ("first",), OVERFLOW),
    Reason("prod", INFINITE, DERIVATIVES, INFINITIES),
    Reason("cumprod", INFINITE, DERIVATIVES, INFINITIES),
    Reason("var", INFINITE, ("first",), "the distance from an infinite mean is NaN for every element"),
    Reason("var", ("huge",), ("first",), ROUNDED),
    *(Reason(name, ("huge",), ("value",), SUMMED) for name in ("nansum", "mean", "sum")),
    Reason(
        "median", INFINITE, ("value",), "between two equal infinities there is that infinity; PyTorch subtracts them"
    ),
    Reason(
        "nn.AdaptiveMaxPool1d",
        (*ZERO, "ties", "all equal", *INFINITE),
        ("first",),
        "elements that reach a region's maximum share its cotangent; PyTorch gives it to the first",
    ),
    Reason(
        "nn.BCELoss of a sigmoid", ("bounds of 3 and 6",), ("second",), "PyTorch's 1e-12 beside a small denominator"
    ),
    Reason("m??imum(x, x)", NAN, ("first",), "the import sees that both are the same tensor", imported=True),
    Reason(
        "nn.MultiMarginLoss",
        ("minus zero",),
        ("first",),
        "torch.export writes a clamp, whose derivative at its bound is 1; PyTorch's kernel has 0",
        imported=True,
    ),
    Reason("pow 0.5", INFINITE, ("second",), "outside of the square root's domain", imported=True),
    Reason("pow 1.5", INFINITE, ("first", "second"), "C's power of minus infinity is infinity; PyTorch takes a root"),
    Reason("pow 0.5", INFINITE, ("value", "first"), "C's power of minus infinity is infinity; PyTorch takes a root"),
    Reason("nn.CosineEmbeddingLoss", ("zeros", "tiny"), ("first",), "PyTorch's 1e-12 is rounded to float32"),
)

NOT_EXPORTED = {
    "nn.GaussianNLLLoss": "PyTorch's function decides in Python whether any variance is negative",
    "median": "before torch 2.13 quantile compares tensors in Python",
}
"""Functions that torch.export may refuse."""

WITHOUT_SECOND = {
    "cdist": "derivative for '_cdist_backward' is not implemented",
    "nn.MultiMarginLoss": "derivative for aten::multi_margin_loss_backward is not implemented",
    "scatter mul": "Double backward is unsupported",
}
"""Functions whose second derivative PyTorch refuses, with its message: they are compared up to the first one."""


def reason(function: str, point: str, part: str) -> Reason | None:
    return next((r for r in EXPLAINED if r.covers(function, point, part)), None)
