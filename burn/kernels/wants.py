"""What a device wants of the description of kernels, where more than one is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from burn.dialect.dims import Dim
from burn.kernels.body import ContractionKernel


@dataclass(frozen=True)
class Product:
    """A product whose right side is laid out in panels: rows by columns, sums of type `dtype`. `depth` places are read one behind
    the other on both sides; 0: those of a window's pixels, which lie apart, but `line` of them. `interleaved` of them lie side by
    side in a panel. From a source `node`, which is no part of it."""

    rows: Dim
    columns: int
    depth: Dim
    dtype: str
    interleaved: int = 1
    line: Dim = 0
    node: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Convolution:
    """One with filters of 3 x 3, or the gradient of its filter: `images` of so many results (`sizes`), each of `outputs`, of
    pixels that have so many `channels`; `constant`: its filter is. From a source `node`, which is no part of it."""

    images: Dim
    sizes: tuple[Dim, ...]
    channels: Dim
    outputs: Dim
    dtype: str
    constant: bool
    gradient: bool
    node: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Wants:
    """`keep_rows`: a costly value that two stages of a row need is kept in scratch memory, not computed again.

    `columns_apart`: a view that leaves the columns of a product's right side apart is read as it is; else it is copied first, by
    a kernel of its own.

    `reduce_block`: a reduction of everything, or of leading axes, is formed in blocks of about so many elements, in parallel, and
    a second kernel joins what came out of them: the result does not depend on the number of threads. 0: in one piece.

    `repeat_small`: what a cheap loop computes of few elements (a bias that is converted) is computed again where it is read: a
    kernel of its own costs more than that.

    `repeat_reads`: a value that a kernel reads is computed again there, from what lies in memory anyway, where that moves fewer
    bytes.

    `sums_together`: reductions of the same rows that read a tensor in common are one kernel, though the one's results are needed
    behind the other.

    `joined_parts`: a joining of up to so many tensors is computed place by place, in one kernel with the little that makes them
    and what is behind it; else each part is put to its place by itself.

    `parts_in_place`: what makes a tensor that is only joined with others, a product or a loop, writes to its place among them,
    and nothing is copied.

    `owed_together`: what queries, keys and values of an attention are owed is one kernel, which forms probabilities once; else
    queries have one and keys with values another, each of which has many places that need nothing of each other.

    `split_keys`: where attention has up to `split_rows` queries for each key head, so many keys at a time are gone over, in
    parallel, and a second kernel joins what came out (`split_programs` key heads at least are enough without). 0: never.

    `small_products`: floats of 8 bits that products are formed of as they are, both sides with their depth side by side.

    `reduce_rows`: says of leading axes that keep so many places, and have so many rows, how many rows a block has instead; they
    are counted as one axis, and a variance is formed in one pass over them. None: blocks are of whole axes, where those fit.

    `long_rows`: a few rows of so many elements or more are formed in blocks too. 0: never.

    `fold_columns`: sums down columns are formed where the rows are gone through anyway, if these have up to so many elements:
    the rows in up to `fold_blocks` blocks of at least `fold_rows`, whose sums a second kernel joins. 0: never, these sums have
    kernels of their own.

    `scatter_rivals`: updates of places that data name are written at all places at once, where no more than so many for each
    element of a row may name the same place: they are compared with each other. 0: they take turns, which suits one thread.

    `costly_behind`: from so many elements of a product of halves on, expensive functions of them are a kernel of their own, which
    hides how long they take; behind the sums all that multiplies would wait. 0: never.

    `parts`: says of a product, and of the numbers of parts that its depth can be cut into, how many of them are summed side by
    side; 1: it stays whole. None: products never are cut."""

    keep_rows: bool = True
    columns_apart: bool = False
    reduce_block: int = 0
    reduce_rows: Callable[[int, Dim], int] | None = None
    long_rows: int = 0
    fold_columns: int = 0
    fold_blocks: int = 0
    fold_rows: int = 1
    repeat_small: bool = False
    repeat_reads: bool = False
    sums_together: bool = False
    joined_parts: int = 0
    parts_in_place: bool = False
    owed_together: bool = False
    split_keys: int = 0
    split_rows: int = 0
    split_programs: int = 0
    scatter_rivals: int = 0
    small_products: tuple[str, ...] = ()
    costly_behind: int = 0
    parts: Callable[[ContractionKernel, Sequence[int]], int] | None = None
