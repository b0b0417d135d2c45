"""The element type that a pointwise operator computes in: PyTorch's promotion rules, as one table of kinds.

The rules for tensors, tensors without axes and Python numbers of several types are torch's own function; the result's type
comes from torch with every call. The table here adds the kind of each operator.
https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
"""

from __future__ import annotations

from typing import Any

from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes

from burn.importers.torch.dtypes import dtype_name

KINDS = {
    "same": KIND.DEFAULT,  # the operands' common type: add, mul, maximum
    "float": KIND.INT_TO_FLOAT,  # integers become the default float: div, exp
    "compare": KIND.DEFAULT,  # compared in the common type; the result is bool
    "logical": KIND.ALWAYS_BOOL,  # every operand is first a truth value
}


def common_dtype(kind: str, *operands: Any) -> str:
    """The element type that operands (torch's view of them: fake tensors, numbers, symbolic numbers) are converted to."""
    if kind == "logical":
        return "bool"
    _, result = elementwise_dtypes(*operands, type_promotion_kind=KINDS[kind])
    return dtype_name(result)
