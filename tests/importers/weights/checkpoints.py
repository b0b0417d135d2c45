"""Checkpoints put together byte by byte, as torch writes them and as it never would. No torch is needed."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

END = b"."
ORDERED = b"ccollections\nOrderedDict\n"


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + len(data).to_bytes(4, "little") + data


def number(value: int) -> bytes:
    return b"\x8a\x08" + value.to_bytes(8, "little", signed=True)


def pair(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def table(items: Mapping[str, bytes]) -> bytes:
    return b"}(" + b"".join(text(k) + v for k, v in items.items()) + b"u"


def storage(key: str = "0", count: int = 6, kind: str = "FloatStorage") -> bytes:
    return pair(text("storage"), name("torch", kind), text(key), text("cpu"), number(count)) + b"Q"


def tensor(
    shape: Sequence[int] = (2, 3),
    strides: Sequence[int] | None = None,
    offset: int = 0,
    count: int | None = None,
    key: str = "0",
    kind: str = "FloatStorage",
) -> bytes:
    sizes = tuple(int(n) for n in np.cumprod([1, *reversed(shape)])[:-1][::-1]) if strides is None else strides
    memory = storage(key, int(np.prod(shape)) if count is None else count, kind)
    operands = (
        memory, number(offset), pair(*map(number, shape)), pair(*map(number, sizes)), b"\x89", ORDERED + b")R",
    )  # fmt: skip
    return name("torch._utils", "_rebuild_tensor_v2") + pair(*operands) + b"R"


def call(module: str, attribute: str, *operands: bytes) -> bytes:
    return name(module, attribute) + pair(*operands) + b"R"


def zipped(
    path: Path, pickle: bytes, storages: Mapping[str, bytes] | None = None, others: Mapping[str, bytes] | None = None
) -> Path:
    """A file as torch.save writes it, around a pickle; the storage "0" holds six floats unless others are given."""
    given = {"0": np.arange(6, dtype=np.float32).tobytes()} if storages is None else storages
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickle)
        for key, data in given.items():
            archive.writestr(f"archive/data/{key}", data)
        for member, data in (others or {"archive/version": b"3\n"}).items():
            archive.writestr(member, data)
    return path


def valid(path: Path) -> Path:
    """A small state dict with two tensors over one storage, one of them transposed."""
    state = {"a.weight": tensor(), "a.turned": tensor((3, 2), (1, 3), count=6), "epoch": number(3)}
    return zipped(path, b"\x80\x02" + table(state) + END)
