"""Image files as pixels, through pillow, for programs that decode them while they run (`burn.image_decode`)."""

from __future__ import annotations

import io

import numpy as np

from burn.errors import Problem, RunError

FORMATS = ("RGB", "BGR", "Grayscale")
"""In the order of the numbers that lib.h gives them."""


def decode(data: bytes, form: int) -> np.ndarray:
    """The pixels of a file's bytes: uint8[height, width, channels]. Raises RunError."""
    summary = "an image cannot be decoded"
    try:
        from PIL import Image
    except ModuleNotFoundError:
        hint = "pip install 'burn-mlir[image]'"
        raise RunError(summary, [Problem("this needs pillow", hint=hint)]) from None
    try:
        with Image.open(io.BytesIO(data)) as image:
            pixels = np.asarray(image.convert("L" if FORMATS[form] == "Grayscale" else "RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise RunError(summary, [Problem(f"{len(data)} bytes: {error}")]) from error
    if pixels.ndim == 2:
        return np.ascontiguousarray(pixels[:, :, None])
    return np.ascontiguousarray(pixels[:, :, ::-1] if FORMATS[form] == "BGR" else pixels)
