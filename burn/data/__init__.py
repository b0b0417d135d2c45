"""Datasets and batches: rows from memory and files, what is made of them, and a loader with worker processes.

rows = burn.data.Csv("houses.csv", types=float)
train, held_out = rows.split(0.9, 0.1, seed=0)
for batch in burn.data.Loader(train, 64, shuffle=True):
    step(**batch)

Nothing here computes with tensors: rows and batches are numpy's arrays, texts, and containers of them.
"""

from burn.data.collate import Padded, collate
from burn.data.dataset import Dataset, Indexed
from burn.data.folders import ImageFolder, TextFolder
from burn.data.hugging_face import HuggingFace
from burn.data.idx import Mnist, read_idx
from burn.data.lines import Csv, JsonLines, Lines
from burn.data.loader import Loader
from burn.data.memory import Memory
from burn.data.tables import Parquet, Sqlite

__all__ = [
    # what a dataset is
    "Dataset", "Indexed",
    # where rows come from
    "Memory", "Lines", "JsonLines", "Csv", "Parquet", "Sqlite", "ImageFolder", "TextFolder", "HuggingFace", "Mnist", "read_idx",
    # batches
    "Loader", "collate", "Padded",
]  # fmt: skip
