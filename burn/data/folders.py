"""Folders whose subfolders are classes, with a file for each row."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from burn.data.dataset import Dataset, opening
from burn.errors import DataError, Problem

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


MODES = ("RGB", "L", "RGBA", "LA", "CMYK", "YCbCr", "LAB", "HSV")
"""Modes of pillow whose pixels have 8 bits a channel."""
_SIXTEEN = ("PNG", "PPM")  # of these formats an image of mode I has 16 bits


class Folder(Dataset):
    """Files in subfolders: a row is a pair of a file's content and the number of its class. `classes` are the subfolders' names,
    sorted; `files` and `labels` say what row is what. Raises DataError for a folder without such files."""

    def __init__(self, folder: str | os.PathLike[str], suffixes: Iterable[str]) -> None:
        self.folder = Path(folder)
        wanted = tuple(suffixes)
        with opening(self.folder):
            self.classes = sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir())
        found = [
            (path.relative_to(self.folder), label)
            for label, name in enumerate(self.classes)
            for path in sorted((self.folder / name).rglob("*"))
            if path.suffix.lower() in wanted and path.is_file()
        ]
        if not found:
            raise DataError(
                f"{self.folder} has no rows", [f"there is no file {', '.join(f'*{s}' for s in wanted)} in a subfolder"]
            )
        self.files = [path for path, _ in found]
        self.labels = np.array([label for _, label in found], np.int64)

    def __len__(self) -> int:
        return len(self.files)

    def location(self, index: int) -> str:
        return str(self.folder / self.files[index])

    def row(self, index: int) -> tuple[Any, int]:
        return self.content(self.folder / self.files[index]), int(self.labels[index])

    def content(self, path: Path) -> Any:
        return path.read_bytes()


class ImageFolder(Folder):
    """Pairs of an image, uint8 of [height, width, channels], and the number of its class (needs pillow).

    mode: pillow's word for the channels ("RGB", "L", "RGBA" ..., of 8 bits each). size: (height, width) that images are scaled
    to. Images of 16 bits are scaled to 8; palettes become their colours; an alpha channel is left out unless the mode has one.
    Raises DataError for another mode, and for images of 32 bits, whose range no file tells."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        mode: str = "RGB",
        size: tuple[int, int] | None = None,
        suffixes: Iterable[str] = IMAGES,
    ) -> None:
        if mode not in MODES:
            raise DataError(
                f"there are no images of mode {mode!r} in 8 bits a channel", [f"there are {', '.join(MODES)}"]
            )
        super().__init__(folder, suffixes)
        self.mode, self.size = mode, size

    def content(self, path: Path) -> np.ndarray:
        try:
            from PIL import Image
        except ImportError as error:
            raise DataError(
                "images are read by pillow", ["it is not installed (pip install 'burn-mlir[data]')"]
            ) from error
        with Image.open(path) as image:
            picture = _eight_bits(image, path).convert(self.mode)
        if self.size is not None:
            picture = picture.resize(self.size[::-1], Image.Resampling.BILINEAR)
        pixels = np.asarray(picture, np.uint8)
        return pixels if pixels.ndim == 3 else pixels[:, :, None]


def _eight_bits(image: Any, path: Path) -> Any:
    """An image whose pixels have 8 bits a channel: pillow cuts off or clips what has more."""
    from PIL import Image

    sixteen = image.mode.startswith("I;16") or (image.mode == "I" and image.format in _SIXTEEN)
    if sixteen:
        pixels = np.asarray(image).astype(np.uint32)
        return Image.fromarray(((pixels * 255 + 32767) // 65535).astype(np.uint8))
    if image.mode in ("I", "F"):
        hint = "scale it to 8 bits beforehand, or read it with data.Folder"
        problem = Problem(f"its pixels are of 32 bits ({image.mode}), whose range is not known", hint=hint)
        raise DataError(f"{path} is no image of 8 or 16 bits", [problem])
    return image


class TextFolder(Folder):
    """Pairs of a text and the number of its class."""

    def __init__(
        self, folder: str | os.PathLike[str], *, suffixes: Iterable[str] = (".txt",), encoding: str = "utf-8"
    ) -> None:
        super().__init__(folder, suffixes)
        self.encoding = encoding

    def content(self, path: Path) -> str:
        return path.read_text(self.encoding)
