"""dot_general and convolution."""

from __future__ import annotations

from collections.abc import Sequence

from burn.codegen.stablehlo.builder import Builder, Convolution, Size, Value
from burn.codegen.stablehlo.elements import is_float
from burn.codegen.stablehlo.emitter import Site, emits
from burn.codegen.stablehlo.ops.casts import cast
from burn.dialect.types import DTYPES


def sums_in(*dtypes: str) -> str:
    """The type of the sums: float32 or wider for floats, int32 or wider for integers."""
    infos = [DTYPES[d] for d in dtypes]
    if any(info.kind == "complex" for info in infos):
        return max(infos, key=lambda info: info.bits).name
    if any(info.kind in ("float", "small") for info in infos):
        return "float64" if "float64" in dtypes else "float32"
    wide = [info for info in infos if info.bits >= 32]
    return max(wide, key=lambda info: info.bits).name if wide else "int32"


def _operands(b: Builder, site: Site, sums: str) -> tuple[Value, Value]:
    """The operands in a type that StableHLO multiplies: half precision as it is, all others in that of the sums."""
    made = []
    for i in (0, 1):
        dtype = site.type(i).dtype
        same = site.type(0).dtype == site.type(1).dtype and dtype in ("float16", "bfloat16") and is_float(sums)
        made.append(site.x(i) if same else cast(b, site.x(i), dtype, sums))
    return made[0], made[1]


@emits("dot_general")
def dot_general(site: Site) -> Value:
    b, op = site.b, site.op
    sums = sums_in(site.type(0).dtype, site.type(1).dtype)
    x, y = _operands(b, site, sums)
    batch, contract = (op.lhs_batch, op.rhs_batch), (op.lhs_contract, op.rhs_contract)
    return cast(b, b.dot_general(x, y, batch, contract, sums), sums, site.result().dtype)


@emits("conv")
def conv(site: Site) -> Value:
    b, op = site.b, site.op
    sums = sums_in(site.type(0).dtype, site.type(1).dtype)
    x, weight = _operands(b, site, sums)
    pads = tuple(zip(site.sizes(op.low), site.sizes(op.high), strict=True))
    last = op.layout == "last"
    if op.fill:
        low, high = ([pad[i] for pad in pads] for i in (0, 1))
        around = (lambda p: [0, *p, 0]) if last else (lambda p: [0, 0, *p])
        fill = b.scalar(op.fill, b.dtype_of(x))
        x = b.pad(x, fill, around(low), around(high), [0] * site.type(0).rank)
        pads = ((0, 0),) * len(pads)
    kept = _moving(b, x, weight, pads, last)
    x, weight = _without(b, x, kept, 1 if last else 2), _without(b, weight, kept, 0 if last else 2)
    strides, dilations = (tuple(values[i] for i in kept) for values in (op.strides, op.dilations))
    form = Convolution(strides, tuple(pads[i] for i in kept), dilations, op.groups, last)
    made = b.reshape(b.convolution(x, weight, form, sums), site.shape())
    return cast(b, made, sums, site.result().dtype)


def _moving(b: Builder, x: Value, weight: Value, pads: Sequence[tuple[Size, Size]], last: bool) -> list[int]:
    """The spatial axes, at least one, without those of size 1 that nothing moves along: XLA has its fast code for few axes."""
    sizes = b.shape_of(x)[1:-1] if last else b.shape_of(x)[2:]
    kernel = b.shape_of(weight)[:-2] if last else b.shape_of(weight)[2:]
    rows = enumerate(zip(sizes, kernel, pads, strict=True))
    return [i for i, (d, k, pad) in rows if not (d == 1 and k == 1 and pad == (0, 0))] or [0]


def _without(b: Builder, x: Value, kept: Sequence[int], first: int) -> Value:
    """x with these spatial axes alone, which begin at axis `first`."""
    shape = b.shape_of(x)
    count = len(shape) - 2
    return b.reshape(x, (*shape[:first], *(shape[first + i] for i in kept), *shape[first + count :]))
