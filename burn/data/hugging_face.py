"""Data sets of Hugging Face's library `datasets`, where that is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from burn.data.dataset import Dataset
from burn.errors import DataError


class HuggingFace(Dataset):
    """A data set of the library's, or one that it loads by name: `HuggingFace("imdb", split="train")`. Rows are dictionaries;
    images come as arrays of [height, width, channels]. Further arguments are those of `datasets.load_dataset`."""

    def __init__(self, dataset: Any, *, split: str | None = None, **arguments: Any) -> None:
        self.dataset = _loaded(dataset, split, arguments) if isinstance(dataset, str) else dataset
        if not (hasattr(self.dataset, "__getitem__") and hasattr(self.dataset, "column_names")) or isinstance(
            self.dataset, dict
        ):
            raise DataError("this is no data set with rows", [f"it is a {type(self.dataset).__name__}: name its split"])

    def __len__(self) -> int:
        return len(self.dataset)

    def row(self, index: int) -> dict[str, Any]:
        return {name: _plain(value) for name, value in self.dataset[index].items()}


def _loaded(name: str, split: str | None, arguments: dict[str, Any]) -> Any:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise DataError("the library `datasets` loads these", ["it is not installed (pip install datasets)"]) from error
    return load_dataset(name, split=split, **arguments)


def _plain(value: Any) -> Any:
    if not (hasattr(value, "getbands") and hasattr(value, "tobytes")):  # pillow's images
        return value
    pixels = np.asarray(value)
    return pixels if pixels.ndim == 3 else pixels[:, :, None]
