"""Image files, which the host of the running program decodes."""

from __future__ import annotations

from burn.dialect.batching.rules import COUNTED
from burn.dialect.dims import symbol
from burn.dialect.op import Op, Operand
from burn.dialect.types import TensorType

PIXEL_FORMATS = {"RGB": 3, "BGR": 3, "Grayscale": 1}
"""The forms of pixels, with their numbers of channels."""


class ImageDecode(Op, name="image_decode", batching=COUNTED):
    """The pixels of an image file. Shapes: x [bytes] uint8 -> [height, width, channels] uint8; height and width are the new
    `symbols`, the channels those of `form`: RGB, BGR or Grayscale."""

    x: Operand
    symbols: tuple[str, ...]
    form: str = "RGB"

    @classmethod
    def infer(cls, x: TensorType, symbols: tuple[str, ...], form: str) -> TensorType:
        if x.dtype != "uint8" or x.rank != 1:
            cls.fail(f"takes uint8[bytes], not {x}")
        if form not in PIXEL_FORMATS:
            cls.fail(f"'{form}' is none of {', '.join(PIXEL_FORMATS)}", "form")
        if len(symbols) != 2:
            cls.fail(f"needs a symbol for the height and one for the width, not {list(symbols)}", "symbols")
        height, width = map(symbol, symbols)
        return TensorType("uint8", (height, width, PIXEL_FORMATS[form]))
