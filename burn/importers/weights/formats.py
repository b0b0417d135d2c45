"""Which reader a file takes, seen from how it begins, and which writer, seen from its name. Enter at `read` and `write`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from burn.dialect.weights import MappedFile, Weight
from burn.errors import ModelError, Problem, printable
from burn.importers import strangers
from burn.importers.weights import burnpack, flax, numpy_file, orbax, safetensors, sharded, torch_file
from burn.importers.weights.archive import Archive
from burn.importers.weights.checkpoint import Checkpoint

KNOWN = (
    "safetensors, an index of its shards, torch's .pt/.pth/.bin, burnpack (.bpk), .npz and .npy, Flax's msgpack, orbax"
)

WRITERS: dict[str, Callable[[Path, Mapping[str, Weight]], None]] = {
    ".safetensors": safetensors.write,
    ".bpk": burnpack.write,
    ".npz": numpy_file.write,
    ".msgpack": flax.write,
}
"""By the ending of the file's name."""

_READERS: dict[str, Callable[[Path], Checkpoint]] = {
    "safetensors": safetensors.read,
    "burnpack": burnpack.read,
    "numpy": numpy_file.read,
    "flax": flax.read,
}


def read(path: str | os.PathLike[str], top_level_key: str | None = None) -> Checkpoint:
    """The tensors of a weight file by name, of whatever format: its content says which. They stay in the file where the
    format allows.

    top_level_key: where the state dict is in a torch checkpoint that holds more ("state_dict"); see
    `torch_file.read`. Raises ModelError, listing everything that is wrong with the file."""
    path = Path(path)
    if path.is_dir() and orbax.folder_of(path) is not None:
        return orbax.read(path)
    if path.is_dir():
        raise ModelError(f"{path} is a folder", [Problem("give a weight file", hint=_inside(path))])
    kind = recognise(path)
    if kind == "torch":
        return torch_file.read(path, top_level_key)
    if top_level_key is not None:
        raise ModelError(
            f"{path} has no top-level keys",
            [Problem(f"it is of kind {kind}, where names are flat", hint="leave it out")],
        )
    if kind == "sharded":
        return sharded.read(path, _read_shard)
    return _read_flat(path, kind)


def _read_flat(path: Path, kind: str) -> Checkpoint:
    return _READERS[kind](path)


def _read_shard(path: Path) -> Checkpoint:
    """A shard is not an index: indices that name each other would never end."""
    kind = recognise(path)
    if kind == "sharded":
        raise ModelError("it is an index of shards itself, and no shard")
    return torch_file.read(path) if kind == "torch" else _read_flat(path, kind)


def write(path: str | os.PathLike[str], tensors: Mapping[str, Weight]) -> None:
    """Writes tensors to a .safetensors, .bpk, .npz or .msgpack file, whole or not at all. Raises ModelError."""
    check_ending(path)
    wrong = [Problem("it is no text", tensor=name) for name in tensors if printable(name) != name]
    if wrong:
        raise ModelError(f"{path} cannot be written: names", wrong)
    WRITERS[Path(path).suffix](Path(path), tensors)


def check_ending(path: str | os.PathLike[str]) -> None:
    """Raises ModelError unless weights can be written to a file of this name."""
    if Path(path).suffix not in WRITERS:
        raise ModelError(f"weights cannot be written to {path}", [f"its name must end in {', '.join(WRITERS)}"])


def recognise(path: Path) -> str:
    """Which format a file has: "safetensors", "sharded", "torch", "burnpack", "numpy" or "flax". Raises ModelError for others."""
    file = MappedFile(path)
    if not file.size:
        raise ModelError(f"{path} is empty", [Problem("it has no bytes", hint="copy or download it again")])
    start = bytes(file.view(0, min(file.size, 512)))
    if start[:4] == b"PK\3\4":
        return _archive(file, start)
    if start[:4] == burnpack.MAGIC.to_bytes(4, "little"):
        return "burnpack"
    if start[:6] == numpy_file.MAGIC:
        return "numpy"
    if torch_file.is_legacy(start) or torch_file.is_tar(start):
        return "torch"
    if start.lstrip()[:1] == b"{" and path.suffix == ".json":
        return "sharded"
    if len(start) > 8 and start[8:9] == b"{":
        return "safetensors"
    if flax.begins(start):
        return "flax"
    if start[:1] == b"\x80":
        raise ModelError(f"{path} is a pickle that torch.save did not write", ["it cannot be read without running it"])
    _refuse(path, strangers.recognise(start, path))
    if path.suffix == ".safetensors":
        return "safetensors"
    if start[:1] == b"\x08":
        _refuse(path, strangers.Stranger("an ONNX model", "burn.load and burn-import read it"))
    raise ModelError(f"{path} is not a weight file that burn can read", [f"it reads {KNOWN}"])


def _refuse(path: Path, found: strangers.Stranger | None) -> None:
    if found is not None:
        hint = found.weights or found.hint
        raise ModelError(f"{path} does not look like weights", [Problem(f"it looks like {found.what}", hint=hint)])


def _archive(file: MappedFile, start: bytes) -> str:
    names = list(Archive(file).members)
    if any(name.endswith(".npy") for name in names) and not any(name.endswith("data.pkl") for name in names):
        return "numpy"
    if not any(name.endswith("data.pkl") for name in names):
        _refuse(file.path, strangers.recognise(start, file.path))
    return "torch"


def _inside(folder: Path) -> str:
    endings = ("*.index.json", "*.safetensors", "*.bpk", "*.pt", "*.pth", "*.bin", "*.npz")
    found = [p.name for ending in endings for p in sorted(folder.glob(ending))]
    return f"it holds {', '.join(found[:5])}" if found else f"burn reads {KNOWN}"
