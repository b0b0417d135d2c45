"""Memory layouts that kernels of a back end read: `Layouts`, which passes query, and the descriptions of their ops."""

from __future__ import annotations

from dataclasses import dataclass, field

from burn.dialect.dims import Dim
from burn.errors import CompileError


@dataclass(frozen=True)
class PackedMatmul:
    """A matmul whose rhs is packed in panels: `rows` by `columns`, accumulated in `dtype`. `depth` consecutive elements
    of both operands are contiguous; 0 for the pixels of a convolution window, where only `line` elements are contiguous. A
    panel interleaves `interleaved` of them. `once`: it is packed before the program or its loops run, not for each matmul.
    `node` names the source node and takes no part in comparisons."""

    rows: Dim
    columns: int
    depth: Dim
    dtype: str
    interleaved: int = 1
    line: Dim = 0
    once: bool = True
    node: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Convolution:
    """A 3 x 3 convolution, or the gradient of its filter: `images` results of the spatial `sizes` with `outputs`
    channels, each from the `channels` channels of its group. `constant`: the filter is a constant. `node` names the source
    node and takes no part in comparisons."""

    images: Dim
    sizes: tuple[Dim, ...]
    channels: Dim
    outputs: Dim
    dtype: str
    constant: bool
    gradient: bool
    groups: int = 1
    node: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class AxisConvolution(Convolution):
    """A convolution with a window of `taps`, computed in tiles along `axis` of its image."""

    axis: int = 1
    taps: tuple[Dim, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()


@dataclass(frozen=True)
class Layouts:
    """The layouts of a back end whose kernels read unpacked operands. `device`: its name, for messages. `fragments`: kernels read
    weights of few bits as fragments of tensor cores (`burn.passes.block_fragments`)."""

    device: str
    fragments: bool = field(default=False, kw_only=True)

    def depth_run(self, lhs: str, rhs: str) -> int:
        """Adjacent depth elements of these element types that one instruction multiplies and sums; 1 without such an
        instruction."""
        return 1

    def panel_width(self, matmul: PackedMatmul) -> int:
        """Columns of a panel, for a matmul whose rhs the pass `pack` packs in panels. Raises CompileError if no kernel reads
        panels."""
        raise CompileError(f"kernels for {self.device} read no panels", ["leave out the pass 'pack'"])

    def winograd(self, convolution: Convolution, pays: bool) -> bool:
        """True if a convolution is computed in the Winograd domain. pays: the estimate of the pass `winograd`."""
        return pays
