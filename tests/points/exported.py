"""Differences of derivatives that an export to ONNX makes: a function that ONNX lacks is exported as its formula, and loses the
derivative rule that burn has for it. Every row must still be needed."""

from __future__ import annotations

from tests.points.explained import DERIVATIVES, ZERO, Reason

CLIP = "exported as Clip, whose derivative at a bound is that of PyTorch's clamp; PyTorch's hardtanh and its kin have 0 there"
BRANCH = "in the formula the branch that is not taken overflows or divides by 0, and 0 times infinity is NaN"
KINK = "the formula has a kink, where the one-sided derivatives are averaged or the second derivative is lost"
ROOT = "the formula divides by a root, which is 0"
TIES = "the formula compares with a maximum so far: equal elements share the cotangent, PyTorch gives it to one"
CLAMPED = "PyTorch clamps the variance behind autograd's back; the export has Max"

FLAT = ("tiny", "zeros")
BOUNDS = ("bounds of 1", "bounds of 2.5", "bounds of 3 and 6")
LARGE = ("huge", "inf", "infs", "saturated")
SIGNED = ("-inf", "all -inf", "inf", "infs")

EXPORTED: tuple[Reason, ...] = (
    *(Reason(n, (*ZERO, "bounds of 3 and 6"), DERIVATIVES, CLIP) for n in ("relu6", "nn.ReLU6")),
    *(Reason(n, ("one zero", "bounds of 3 and 6"), DERIVATIVES, CLIP) for n in ("hard_sigmoid", "nn.Hardtanh")),
    Reason("hard_swish", ("one zero", "bounds of 3 and 6", "nan", "nan last"), DERIVATIVES, CLIP),
    *(Reason(n, LARGE, DERIVATIVES, BRANCH) for n in ("elu", "celu", "nn.CELU 0.5")),
    *(Reason(n, (*LARGE, *ZERO), DERIVATIVES, BRANCH) for n in ("selu", "nn.ELU 0.5")),
    Reason(
        "atan2(x, c)",
        (*SIGNED, *ZERO, *BOUNDS, "all equal", "huge", "nan last", "saturated", "ties", "tiny"),
        DERIVATIVES,
        BRANCH,
    ),
    Reason("atan2(c, x)", (*SIGNED, *ZERO, "tiny"), DERIVATIVES, BRANCH),
    Reason("atan2(x, x)", ZERO, DERIVATIVES, BRANCH),
    *(
        Reason(n, ZERO, DERIVATIVES, KINK)
        for n in ("softplus", "log_sigmoid", "nn.Softplus 2", "nn.BCEWithLogitsLoss", "nn.SoftMarginLoss")
    ),
    Reason("nn.BCELoss of a sigmoid", (*SIGNED, "huge", "saturated"), DERIVATIVES, BRANCH),
    Reason("std", (*FLAT, "all equal"), DERIVATIVES, ROOT),
    Reason(
        "std of 1",
        (*ZERO, *BOUNDS, "all equal", "huge", "nan last", "saturated", "ties", "tiny"),
        DERIVATIVES,
        ROOT,
    ),
    *(
        Reason(n, FLAT, DERIVATIVES, ROOT)
        for n in ("normalize", "nn.LPPool1d ?", "cosine_similarity", "cdist", "norm 2.0", "norm 3.0")
    ),
    Reason("norm 1.5", ("zeros",), DERIVATIVES, ROOT),
    Reason(
        "norm 0.5",
        ("-inf", "inf", "infs"),
        ("second",),
        "infinities are added in another order",
    ),
    Reason("layer_norm", ("huge",), ("second",), BRANCH),
    Reason("cummax", ("-inf", "all -inf", "infs", "all equal", "nan", "nan last", "ties", "zeros"), DERIVATIVES, TIES),
    Reason(
        "cummin",
        ("all -inf", "inf", "infs", "all equal", "nan", "nan last", "ties", "two zeros", "zeros"),
        DERIVATIVES,
        TIES,
    ),
    Reason("nn.GaussianNLLLoss", ("tiny",), DERIVATIVES, CLAMPED),
)
