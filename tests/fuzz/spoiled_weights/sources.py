"""Small weight files of every format that burn reads, by their endings."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from burn.dialect.weights import array_weight
from burn.importers import weights
from tests.importers.weights.checkpoints import END, call, number, table, tensor, valid, zipped

Files = Mapping[str, bytes]
"""The files of one checkpoint by name, the one that is read first."""


@cache
def sources() -> list[Files]:
    rng = np.random.default_rng(0)
    arrays = {
        "layer.weight": rng.standard_normal((3, 4)).astype(np.float32),
        "layer.bias": rng.standard_normal(3),
        "half": np.ones((2, 5), np.float16),
        "count": np.array(7, np.int64),
        "mask": np.array([True, False, True]),
        "none": np.zeros((0, 2), np.float32),
    }
    found: list[Files] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for ending in ("safetensors", "bpk", "npz"):
            weights.write(root / f"w.{ending}", {name: array_weight(array) for name, array in arrays.items()})
            found.append({f"w.{ending}": (root / f"w.{ending}").read_bytes()})
        for save in (np.savez, np.savez_compressed):
            content = io.BytesIO()
            save(content, **arrays)
            found.append({"w.npz": content.getvalue()})
        content = io.BytesIO()
        np.save(content, np.asfortranarray(arrays["layer.weight"]))
        found.append({"w.npy": content.getvalue()})
        found.append({"w.pt": valid(root / "w.pt").read_bytes()})
        nested = {
            "model": table({"a.weight": tensor(), "b": tensor((3, 2), (1, 3), count=6), "n": number(3)}),
            "other": call("collections", "OrderedDict"),
        }
        found.append({"w.pt": zipped(root / "n.pt", b"\x80\x02" + table(nested) + END).read_bytes()})
    return [*found, _shards(found[0])]


def _shards(whole: Files) -> Files:
    """An index, and its one shard."""
    (content,) = whole.values()
    length = int.from_bytes(content[:8], "little")
    names = [name for name in json.loads(content[8 : 8 + length]) if name != "__metadata__"]
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, "w.safetensors")}
    return {"w.safetensors.index.json": json.dumps(index).encode(), "w.safetensors": content}
