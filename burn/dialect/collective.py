"""Collectives: ops of one program that runs in several processes, one on each device of a mesh.

`groups` lists the ranks of all processes, one group of `size` after another. The processes of a group compute together, and the
position of a rank in its group is its number there. All processes run the same collectives in the same order
(`Trait.ORDERED`). They are not pure: a pass that runs on one process's program must not erase or merge them, because the other
processes wait for it. Several tensors in one op are one bucket: they are sent together.

On CPUs the reduction of floats has a fixed order, that of the positions. The bits of a sum do not depend on which process comes
first, and float16 and bfloat16 accumulate in float32. On GPUs NCCL chooses the order. It rounds float16 and bfloat16 after each
addition.
Source: StableHLO's all_reduce, all_gather, reduce_scatter and collective_broadcast.
"""

from __future__ import annotations

from burn.dialect.op import Op, Operand, Variadic
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, PARTS, TensorType

REDUCTIONS = ("sum", "prod", "max", "min")
"""In the order of lib_collective.c."""

UNMAPPED = "the processes of a mesh would need the same examples; use it outside of burn.vmap"


def _checked(cls: type[Op], xs: list[TensorType], groups: tuple[int, ...], size: int) -> None:
    if not xs:
        cls.fail("needs at least one operand")
    for x in xs:
        if DTYPES[x.dtype].kind in ("string", "list", "complex"):
            hint = ": use view_as_real" if x.dtype in PARTS else ""
            cls.fail(f"does not send {x.dtype}{hint}")
    if size < 1 or not groups or len(groups) % size:
        cls.fail(f"{len(groups)} ranks do not form groups of {size}", "groups")
    if sorted(groups) != list(range(len(groups))):
        cls.fail(f"the groups {list(groups)} must have each rank from 0 to {len(groups) - 1} once", "groups")


def _reduced(cls: type[Op], xs: list[TensorType], reduction: str) -> None:
    if reduction not in REDUCTIONS:
        cls.fail(f"'{reduction}' is none of {', '.join(REDUCTIONS)}", "reduction")
    for x in xs:
        if DTYPES[x.dtype].kind not in ("float", "int", "uint") or DTYPES[x.dtype].bits < 8:
            cls.fail(f"does not reduce {x.dtype}: cast it")


class AllReduce(Op, name="all_reduce", pure=False, traits=Trait.ORDERED, batching=UNMAPPED):
    """Each tensor reduced elementwise over the processes of a group: sum, prod, max or min. Shapes: xs [...]... -> the same."""

    xs: Variadic
    groups: tuple[int, ...]
    size: int
    reduction: str = "sum"

    @classmethod
    def infer(cls, xs: list[TensorType], groups: tuple[int, ...], size: int, reduction: str) -> list[TensorType]:
        _checked(cls, xs, groups, size)
        _reduced(cls, xs, reduction)
        return xs


class AllGather(Op, name="all_gather", pure=False, traits=Trait.ORDERED, batching=UNMAPPED):
    """The tensors of a group's processes, concatenated along the first axis. Shapes: xs [n, ...]... -> [size * n, ...]..."""

    xs: Variadic
    groups: tuple[int, ...]
    size: int

    @classmethod
    def infer(cls, xs: list[TensorType], groups: tuple[int, ...], size: int) -> list[TensorType]:
        _checked(cls, xs, groups, size)
        if any(not x.rank for x in xs):
            cls.fail("scalars have no axis to concatenate along")
        return [x.with_shape((x.shape[0] * size, *x.shape[1:])) for x in xs]


class ReduceScatter(Op, name="reduce_scatter", pure=False, traits=Trait.ORDERED, batching=UNMAPPED):
    """As `all_reduce`, but each process gets one of `size` equal blocks of the first axis, by its position.

    Shapes: xs [size * n, ...]... -> [n, ...]..."""

    xs: Variadic
    groups: tuple[int, ...]
    size: int
    reduction: str = "sum"

    @classmethod
    def infer(cls, xs: list[TensorType], groups: tuple[int, ...], size: int, reduction: str) -> list[TensorType]:
        _checked(cls, xs, groups, size)
        _reduced(cls, xs, reduction)
        for x in xs:
            if not x.rank or not isinstance(x.shape[0], int) or x.shape[0] % size:
                cls.fail(f"the first axis of {x} does not divide into {size} blocks")
        return [x.with_shape((x.shape[0] // size, *x.shape[1:])) for x in xs]  # type: ignore[operator]


class CollectiveBroadcast(Op, name="collective_broadcast", pure=False, traits=Trait.ORDERED, batching=UNMAPPED):
    """The tensors of the process at position `root` of each group. Shapes: xs [...]... -> the same."""

    xs: Variadic
    groups: tuple[int, ...]
    size: int
    root: int = 0

    @classmethod
    def infer(cls, xs: list[TensorType], groups: tuple[int, ...], size: int, root: int) -> list[TensorType]:
        _checked(cls, xs, groups, size)
        if not 0 <= root < size:
            cls.fail(f"a group of {size} has no position {root}", "root")
        return xs


class CollectiveWait(Op, name="collective_wait", pure=False, traits=Trait.ALIAS | Trait.ORDERED, batching=UNMAPPED):
    """x, a result of a collective, available to later ops. Between the collective and this op a device computes while it sends.
    `sent` are the collective's operands: their memory is not reused before. Shapes: x [...], sent [...]... -> x's."""

    x: Operand
    sent: Variadic

    @classmethod
    def infer(cls, x: TensorType, sent: list[TensorType]) -> TensorType:
        return x


COLLECTIVES = (AllReduce, AllGather, ReduceScatter, CollectiveBroadcast)
"""The ops that send."""
