"""Checkpoints of torch.save (.pt, .pth, .bin, .ckpt), read without torch and without running anything in them.

Since torch 1.6 such a file is a zip archive: `<root>/data.pkl` is the object, with storages by key, `<root>/data/<key>` are
their bytes. Before, it was five pickles (a magic number, a version, the machine, the object, the storages' keys), followed by
the storages (torch/serialization.py, `_legacy_save`). TorchScript archives are laid out as the former; the tensors in their
modules are read, their code is not. Enter at `read`.
"""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import Any

from burn.dialect.weights import MappedFile
from burn.errors import ModelError, Problem
from burn.importers.weights import pickle
from burn.importers.weights.archive import Archive
from burn.importers.weights.checkpoint import Checkpoint
from burn.importers.weights.tensors import DTYPES, Location, Storages, flatten, select

MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_VERSION = 1001
SCRIPT_ATTRIBUTES = ("training", "_is_full_backward_hook")
"""Every module of a TorchScript archive has these."""


def read(path: str | os.PathLike[str], top_level_key: str | None = None) -> Checkpoint:
    """The tensors of a checkpoint by name; those that are stored row by row stay in the file.

    top_level_key: the path of the state dict inside the saved object, "state_dict" or "models.student". Raises ModelError,
    listing all problems of the file, and every class or function in it that is not allowed."""
    file = MappedFile(path)
    start = bytes(file.view(0, min(file.size, 512)))
    if start[:4] == b"PK\3\4":
        root, storages = _zip(file)
    elif is_legacy(start):
        root, storages = _legacy(file)
    elif is_tar(start):
        text = "the tar format of torch before 0.1.10 is not read"
        raise ModelError(f"{path} is too old", [Problem(text, hint="save it again with torch")])
    else:
        raise ModelError(f"{path} is not a checkpoint of torch")
    checkpoint = Checkpoint(path=path, kind="torch")
    checkpoint.layout = "torch"
    root, checkpoint.ignored = select(root, top_level_key, checkpoint.notes)
    flat = flatten(root)
    checkpoint.ignored.update({k: v for k, v in flat.others.items() if k.rpartition(".")[2] not in SCRIPT_ATTRIBUTES})
    problems = flat.problems
    for name, ref in flat.tensors.items():
        try:
            checkpoint[name] = storages.weight(ref)
        except ModelError as error:
            problems.append(Problem("; ".join([error.summary, *map(str, error.problems)]), tensor=name))
    if problems:
        raise ModelError(f"{path} is malformed, or holds what cannot be read", problems)
    return checkpoint


def is_legacy(start: bytes) -> bool:
    """True if a file begins with the pickle of the magic number, in any protocol."""
    return start[:1] == b"\x80" and MAGIC.to_bytes(10, "little") in start[:32]


def is_tar(start: bytes) -> bool:
    """True if a file is of the oldest format."""
    return start[257:262] == b"ustar" or start.startswith((b"pickle\0", b"sys_info\0", b"storages\0"))


def _zip(file: MappedFile) -> tuple[Any, Storages]:
    archive = Archive(file)
    roots = [PurePosixPath(n).parent for n in archive.members if PurePosixPath(n).name == "data.pkl"]
    roots = [r for r in roots if len(r.parts) <= 1]
    if len(roots) != 1:
        raise ModelError(f"{file.path} is not a checkpoint of torch", ["there is no data.pkl in this zip archive"])
    (root,) = roots
    script = str(root / "constants.pkl") in archive.members
    order = b"little"
    if str(root / "byteorder") in archive.members:
        order = bytes(archive.read(str(root / "byteorder")))[:16]
    if order not in (b"little", b"big"):
        raise ModelError(f"{file.path} is malformed", [f"its byte order is {order!r}"])
    archive.location(str(root / "data.pkl"))  # it is stored as it is
    value, _ = pickle.load(archive.read(str(root / "data.pkl")), str(file.path), script=script)

    def find(key: str) -> Location:
        name = str(root / "data" / key)
        if name not in archive.members or "/" in key:
            raise ModelError(f"there is no storage '{key}' in the file")
        return Location(file, *archive.location(name))

    return value, Storages(find, file.size, order == b"big")


def _legacy(file: MappedFile) -> tuple[Any, Storages]:
    name, position, values = str(file.path), 0, []
    for _ in range(5):
        value, position = pickle.load(file.data, name, position)
        values.append(value)
    magic, version, machine, root, keys = values
    if magic != MAGIC or version != LEGACY_VERSION:
        raise ModelError(f"{name} is not a checkpoint of torch", ["its magic number or version is wrong"])
    little = machine.get("little_endian", True) if isinstance(machine, dict) else True
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ModelError(f"{name} is malformed", ["the keys of its storages are no list of texts"])
    units = _units(root)
    locations: dict[str, Location] = {}
    for key in keys:
        if key in locations or key not in units:
            raise ModelError(f"{name} is malformed", [f"storage '{key}' is there twice, or belongs to no tensor"])
        count = int.from_bytes(file.data[position : position + 8], "little" if little else "big")
        length = count * units[key]
        if position + 8 + length > file.size:
            text = f"it is cut short: storage '{key}' would end at byte {position + 8 + length} of {file.size}"
            raise ModelError(f"{name} is malformed", [Problem(text, hint="copy or download it again")])
        locations[key] = Location(file, position + 8, length)
        position += 8 + length

    def find(key: str) -> Location:
        if key not in locations:
            raise ModelError(f"there is no storage '{key}' in the file")
        return locations[key]

    return root, Storages(find, file.size, not little)


def _units(root: Any) -> dict[str, int]:
    """How many bytes the elements of each storage have, which the storages themselves do not say."""
    units: dict[str, int] = {}
    for ref in flatten(root).tensors.values():
        dtype = ref.storage.dtype
        key = ref.storage.view[0] if ref.storage.view else ref.storage.key
        size = 1 if dtype == "untyped" else DTYPES[dtype].size if dtype in DTYPES else 0
        if not size:
            raise ModelError(f"a storage of {dtype} cannot be read", ["dequantize the model before saving it"])
        if units.setdefault(key, size) != size:
            raise ModelError("the checkpoint is malformed", [f"storage '{key}' has elements of two types"])
    return units
