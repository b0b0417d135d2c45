"""Prints gradients of convolutions' weights in half precision for Hopper: a matmul over the pixels of a batch, whose lhs is an
image under windows. `emit` is the entry point; it returns None for kernels that contract.py prints.

Boxes of pixels are copied to shared memory by tensor maps. A map reads zeros outside of an image, so padding needs no copy of the
image, and a box that overhangs no masks.
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints
from burn.codegen.triton.heuristics.weight_gradient import PixelTile, Work, pixel_tile
from burn.codegen.triton.hopper.pixels import Pixels, pixels
from burn.codegen.triton.hopper.warp_specialised import function_head, in_gluon, printable, text
from burn.codegen.triton.printed import Printed, given, opened
from burn.codegen.triton.scalars import ScalarPrinter
from burn.codegen.triton.tensor_maps import BYTES
from burn.dialect.dims import Dim, product
from burn.kernels.body import ContractionKernel

CONSTANTS = (
    "RING", "EVEN", "GROUPS", "ACROSS", "HELD", "OUTPUTS", "CHANNELS", "IMAGES", "WIDTH", "STAGES", "ENTRIES", "REGISTERS",
)  # fmt: skip


def depth_shares(kernel: ContractionKernel, processors: int, hints: SizeHints = UNKNOWN) -> int:
    """The number of shares into which the kernel of a weight's gradient divides its depth (`Preferences.depth_shares`)."""
    found = _tile(pixels(kernel, {}), processors, hints)
    return 0 if found is None else found.parts


def emit(
    kernel: ContractionKernel,
    values: Mapping[str, Dim],
    sizes: ContractionKernel,
    sites: list[str],
    processors: int,
    hints: SizeHints = UNKNOWN,
) -> Printed | None:
    """values: the values of the kernel's sizes; sizes: the kernel with these values; processors: of the GPU; hints:
    size hints. None for other kernels, and for those without a gain."""
    of, known = pixels(kernel, values), pixels(sizes, {})
    tile = _tile(known, processors, hints)
    if of is None or known is None or tile is None:
        return None
    return _WeightGradient(values, of, known, tile, sites, processors).print()


def _tile(of: Pixels | None, processors: int, hints: SizeHints) -> PixelTile | None:
    """The tile of a kernel, if it is printed here."""
    if of is None or not all(printable(write.value) for write in of.kernel.epilogue):
        return None
    sizes = (1 if loop is None else loop.extent for loop in of.along)
    return pixel_tile(Work(*of.counts, *sizes, ring=of.is_ring, whole=of.is_whole), processors, hints)


class _WeightGradient:
    """known: the gradient with the values of its sizes."""

    def __init__(
        self,
        values: Mapping[str, Dim],
        of: Pixels,
        known: Pixels,
        tile: PixelTile,
        sites: list[str],
        processors: int,
    ) -> None:
        self.kernel, self.of, self.known = of.kernel, of, known
        self.tile, self.sites, self.processors = tile, sites, processors
        self.given, self.arguments = given(self.kernel, values)

    def print(self) -> Printed:
        tile = self.tile
        constants = {
            "RING": int(self.of.is_ring), "EVEN": int(tile.even), "GROUPS": tile.groups, "ACROSS": tile.across, "HELD":
            int(tile.held), "OUTPUTS": tile.outputs, "CHANNELS": tile.channels, "IMAGES": tile.images, "WIDTH": tile.width,
            "STAGES": tile.stages, "ENTRIES": tile.entries, "REGISTERS": tile.registers,
        }  # fmt: skip
        return Printed(
            "KERNEL", in_gluon([self._main(), self._write()]), tuple(self.arguments), constants, self._programs(), 4, 1,
            scratch=2 * BYTES, registers=tile.entering,
        )  # fmt: skip

    def _programs(self) -> Dim:
        """One for each part of a tile, or one for each processor."""
        if not self.tile.even:
            return self.processors
        of = self.known
        tiles = self.tile.tiles(*of.counts, of.is_ring)
        return tiles * product([v.extent for v in of.kernel.shares])

    def _main(self) -> str:
        about = (
            "Sums of pixels for each tap, channel and output: warps that multiply, and one that copies boxes of pixels."
        )
        of, printer = self.of, opened(self.kernel.buffers, self.sites)
        code = printer.code
        code.line(f"own = ({', '.join(self.given)}, tl.program_id(0).to(INT))")
        for name, operand in (("image", of.image), ("cotangent", of.cotangent)):
            begin = f"b{operand.buffer} + {printer.dim(operand.begin)}"
            code.line(f"{name} = ({begin}, {_numbers(printer, operand.sizes)}, {_numbers(printer, operand.strides)})")
        parts = product([v.extent for v in self.kernel.shares])
        sizes = _numbers(printer, (*of.counts, parts))
        moves = _numbers(printer, of.moves)
        code.line(f"sum_windows(image, cotangent, own, {sizes}, {moves}, KERNEL_write, {', '.join(CONSTANTS)})")
        names = [*self.given, *(f"{name}: gl.constexpr" for name in ("INT", *CONSTANTS))]
        return text(function_head("KERNEL", names, about), printer)

    def _write(self) -> str:
        of, printer = self.of, opened(self.kernel.buffers, self.sites)
        code = printer.code
        code.line(f"{', '.join(self.given)}, program = own")
        code.line("INT: tl.constexpr = program.dtype")
        x = code.let(f"(channel + tl.arange(0, {self.tile.channels})[None, :]).to(INT)", "x")
        y = code.let(f"(output + tl.arange(0, {self.tile.outputs})[:, None]).to(INT)", "y")
        for name, index, loop in (("x", x, of.channel), ("y", y, of.column)):
            printer.axes[name] = Axis(index, code.let(f"{index} < {printer.dim(loop.extent)}", "inside"))
            printer.put(loop, index, frozenset(name))
        for loop, index in ((of.row, "row"), (of.tap, "tap")):
            if loop is not None:
                printer.put(loop, f"{index}.to(INT)", NONE)
        for loop in self.kernel.shares:
            printer.put(loop, "part.to(INT)", NONE)
        for loop in (*self.kernel.batch, *self.kernel.rows):
            if loop.extent == 1:
                printer.put(loop, "0", NONE)
        printer.accumulator = ("total", frozenset("xy"))
        for write in self.kernel.epilogue:
            printer.value(write.value)
        for write in self.kernel.epilogue:
            printer.store(write)
        names = ["part", "row", "tap", "channel", "output", "total", "own"]
        return text(function_head("KERNEL_write", names, "Stores a block of sums."), printer)


def _numbers(printer: ScalarPrinter, dims: tuple[Dim, ...]) -> str:
    """A tuple of numbers. Triton takes them for values, not for constants."""
    return f"({', '.join(f'gl.to_tensor({printer.dim(dim)})' for dim in dims)})"
