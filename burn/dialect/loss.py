"""Classification losses. Composites.

Both reduce `loss[n, d..] = -weight[target] * log_p[n, target, d..]`; elements whose target is `ignore` do not count.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.batching.rules import by_entry, elementwise
from burn.dialect.compose import check_equal, convert, dim_value, number, number_like, reshape
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand, same_type
from burn.dialect.pointwise import broadcast
from burn.dialect.types import FLOATS, TensorType, may_equal, type_of

REDUCTIONS = ("none", "sum", "mean")


def check_loss(
    cls: type[Op], x: TensorType, target: TensorType, weight: TensorType | None, reduction: str
) -> TensorType:
    """The loss's type. x is [n, classes, d..]."""
    if reduction not in REDUCTIONS:
        cls.fail(f"'{reduction}' is none of {', '.join(REDUCTIONS)}", "reduction")
    if x.rank < 2 or target.rank != x.rank - 1 or target.dtype not in ("int32", "int64"):
        cls.fail(f"x must be [n, classes, d..] and the target int32 or int64 [n, d..], not {x} and {target}")
    if not may_equal(target.shape, (x.shape[0], *x.shape[2:])):
        cls.fail(f"the target of {x} must have an element for each x[n, :, d..], not {target}")
    if weight is not None and (weight.dtype != x.dtype or not may_equal(weight.shape, x.shape[1:2])):
        cls.fail(f"the weight must be {x.dtype}[{x.shape[1]}], not {weight}")
    return x.with_shape((x.shape[0], *x.shape[2:]) if reduction == "none" else ())


def picked_loss(
    log_p: ir.Value, target: ir.Value, weight: ir.Value | None, reduction: str, ignore: int | None
) -> ir.Value:
    type_ = type_of(log_p)
    shape = (type_.shape[0], *type_.shape[2:])
    check_equal(type_of(target).shape, shape, "the target has an element for each sample")
    target = reshape(target, shape)
    if weight is not None:
        check_equal(type_of(weight).shape, type_.shape[1:2], "there is one weight for each class")
    target = convert(target, "int64")
    kept = None
    if ignore is not None:
        kept = ops.ne(target, number(ignore, "int64"))
        target = ops.select(kept, target, number(0, "int64"))
    target = ops.from_start(target)
    indices = reshape(target, (shape[0], 1, *shape[1:]))
    chosen = reshape(ops.gather_elements(log_p, indices, axis=1), shape)
    share = None if weight is None else ops.gather(weight, target, axis=0)
    if kept is not None:
        one = number_like(1.0, log_p) if share is None else share
        share = ops.select(kept, one, number_like(0.0, log_p))
        chosen = ops.select(kept, chosen, number_like(0.0, log_p))
    loss = ops.neg(chosen if share is None else ops.mul(chosen, share))
    if reduction == "none":
        return loss
    axes = tuple(range(len(shape)))
    total = ops.reduce(loss, kind="sum", axes=axes)
    if reduction == "sum":
        return total
    if share is None:
        return ops.div(total, dim_value(type_of(loss).elements, type_.dtype))
    return ops.div(total, ops.reduce(share, kind="sum", axes=axes))


class NllLoss(Op, name="nll_loss", batching=by_entry(log_p=0, target=0)):
    """The negative log likelihood. Shapes: log_p [n, classes, d..], target [n, d..], weight [classes] -> [n, d..], or
    [] for a sum or (weighted) mean. Source: ONNX NegativeLogLikelihoodLoss."""

    log_p: Operand
    target: Operand
    weight: Operand | None
    reduction: str = "mean"
    ignore: int | None = None

    @classmethod
    def infer(cls, log_p, target, weight, reduction, ignore) -> TensorType:
        return check_loss(cls, log_p, target, weight, reduction)

    @classmethod
    def decompose(cls, log_p, target, weight, reduction, ignore) -> ir.Value:
        return picked_loss(log_p, target, weight, reduction, ignore)


class CrossEntropy(Op, name="cross_entropy", batching=by_entry(scores=0, target=0)):
    """The negative log likelihood of a softmax over axis 1. Shapes: scores [n, classes, d..], target [n, d..], weight
    [classes] -> the loss [n, d..] or [], and the log probabilities [n, classes, d..].
    Source: ONNX SoftmaxCrossEntropyLoss."""

    scores: Operand
    target: Operand
    weight: Operand | None
    reduction: str = "mean"
    ignore: int | None = None

    @classmethod
    def infer(cls, scores, target, weight, reduction, ignore) -> list[TensorType]:
        return [check_loss(cls, scores, target, weight, reduction), scores]

    @classmethod
    def decompose(cls, scores, target, weight, reduction, ignore) -> list[ir.Value]:
        log_p = ops.log_softmax(scores, axis=1)
        return [picked_loss(log_p, target, weight, reduction, ignore), log_p]


LEAST_LOG = -100.0
"""The lower limit of logarithms of probabilities, as in PyTorch."""


class BinaryCrossEntropy(Op, name="binary_cross_entropy", batching=elementwise):
    """-(target log x + (1 - target) log(1 - x)), with logarithms of at least -100. Shapes: x and target broadcast to
    [...] -> [...], floats. Source: torch.nn.BCELoss."""

    x: Operand
    target: Operand

    @classmethod
    def infer(cls, x: TensorType, target: TensorType) -> TensorType:
        same_type(cls, x, target)
        if x.dtype not in FLOATS:
            cls.fail(f"does not take {x.dtype}; it takes {', '.join(FLOATS)}")
        return TensorType(x.dtype, broadcast(cls, x, target))

    @classmethod
    def decompose(cls, x: ir.Value, target: ir.Value) -> ir.Value:
        yes, no = held_logs(x)
        rest = ops.sub(number_like(1.0, target), target)
        return ops.neg(ops.add(ops.mul(target, yes), ops.mul(rest, no)))


def held_logs(x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """log x and log(1 - x), clamped to at least -100."""
    least = number_like(LEAST_LOG, x)
    return ops.clip(ops.log(x), least, None), ops.clip(ops.log1p(ops.neg(x)), least, None)
