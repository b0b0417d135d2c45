"""Spoils weight files at random, by a seed. After a change of structure, checksums and lengths are recomputed, so that the
reader gets as far as the change."""

from __future__ import annotations

import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import cbor2

from burn.importers.weights.pickle import OPCODES
from tests.fuzz.spoiled_models.mutate import BYTES, EXTREME
from tests.fuzz.spoiled_weights.sources import Files, sources

NAMES = (
    "",
    "..",
    "../x",
    "/etc/passwd",
    "a/../../b",
    "w.safetensors",
    "a\0b",
    "\ud800",
    "__metadata__",
    "x" * 5000,
    "layer.weight",
)
CODES = ("F32", "BF16", "I8", "BOOL", "F8_E4M3", "U64", "C64", "X9", "F4", "", 7, None)
NUMBERS = (float("nan"), float("inf"), -float("inf"), 1e300, 10**400)
CALLS = (
    b"cos\nsystem\n",
    b"cbuiltins\neval\n",
    b"ctorch.storage\n_load_from_bytes\n",
    b"cnumpy\nfromfile\n",
    b"csubprocess\nPopen\n",
)


def mutate(seed: int) -> Files:
    """A checkpoint's files, one of them changed at one to four offsets. The result depends on the seed alone."""
    rng = random.Random(seed)
    files = dict(rng.choice(sources()))
    name = rng.choice(list(files))
    data = files[name]
    change = STRUCTURES.get(name.rpartition(".")[2]) if rng.random() < 0.6 else None
    for _ in range(rng.choice((1, 1, 2, 4))):
        try:
            data = (
                change(data, rng)
                if change
                else rng.choice(BYTES)(data, rng, [b for f in sources() for b in f.values()])
            )
        except (ValueError, KeyError, IndexError, RecursionError, zipfile.BadZipFile, cbor2.CBORDecodeError):
            break  # what an earlier change made unreadable stays as it is
    return {**files, name: data}


def _headed(data: bytes, rng: random.Random) -> bytes:
    """Safetensors: a length and JSON."""
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(spoil(json.loads(data[8 : 8 + length]), rng)).encode()
    said = len(header) if rng.random() < 0.9 else rng.choice(EXTREME) % 2**64
    return said.to_bytes(8, "little") + header + data[8 + length :]


def _plain(data: bytes, rng: random.Random) -> bytes:
    return json.dumps(spoil(json.loads(data), rng)).encode()


def _burnpack(data: bytes, rng: random.Random) -> bytes:
    """A magic number and version, a length, CBOR."""
    length = int.from_bytes(data[6:10], "little")
    try:
        header = cbor2.dumps(spoil(cbor2.loads(data[10 : 10 + length]), rng))
    except (OverflowError, UnicodeEncodeError) as error:
        raise ValueError(str(error)) from None
    return data[:6] + len(header).to_bytes(4, "little") + header + data[10 + length :]


def _archive(data: bytes, rng: random.Random) -> bytes:
    """A zip archive: one entry changed, renamed, doubled or left out; its checksums are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = rng.randrange(len(entries))
    name, content = entries[at]
    kind = rng.randrange(8)
    if kind == 0:
        entries[at] = (rng.choice(NAMES).replace("\ud800", "?"), content)
    elif kind == 1:
        del entries[at]
    elif kind == 2:
        entries.append((name, content[::-1]))
    elif name.endswith(".pkl"):
        entries[at] = (name, _pickle(content, rng))
    elif name.endswith(".npy"):
        entries[at] = (name, _array(content, rng))
    else:
        entries[at] = (name, rng.choice(BYTES)(content, rng, [content]))
    written = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(written, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two entries of one name
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name or "x"), content, method)
    return written.getvalue()


def _pickle(content: bytes, rng: random.Random) -> bytes:
    """An operation or a few bytes put in, taken out or changed; or a call that must never happen."""
    data = bytearray(content)
    offset = rng.randrange(len(data) + 1)
    kind = rng.randrange(6)
    if kind == 0:
        data[offset:offset] = rng.choice(CALLS) + b"(X\x04\0\0\0truetR"
    elif kind == 1:
        data[offset : offset + 8] = (rng.choice(EXTREME) % 2**64).to_bytes(8, "little")
    elif kind == 2:
        data[offset:offset] = rng.choice((b"(", b"]", b"}", b"2", b"K\x01", b"l", b"d")) * rng.choice((1, 3, 5000))
    else:
        codes = [bytes([code]) for code in OPCODES]
        data[offset : offset + rng.randrange(3)] = rng.choice((rng.choice(codes), rng.randbytes(1)))
    return bytes(data)


def _array(content: bytes, rng: random.Random) -> bytes:
    """numpy's header is Python text: other numbers, other words."""
    end = content.find(b"}") + 1
    text = content[10:end].decode("latin-1")
    number = str(rng.choice(EXTREME))
    changes = (("3", number), ("4", number), ("<f4", rng.choice(("|O", ">f8", "<U9999999", "<M8[s]", "<f2", "V16"))))
    old, new = rng.choice((*changes, ("False", "True"), ("(", "(" * rng.choice((1, 400))), (",", ", 1" * 70 + ",")))
    text = text.replace(old, new, 1)
    padded = (text + " " * (-(11 + len(text)) % 64) + "\n").encode("latin-1")
    return (
        content[:8]
        + (len(padded) % 65536).to_bytes(2, "little")
        + padded
        + content[10 + int.from_bytes(content[8:10], "little") :]
    )


def spoil(tree: Any, rng: random.Random) -> Any:
    """A tree of tables and lists with one place of it changed."""
    slots: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in list(entries):
            slots.append((node, key))
            walk(value)

    walk(tree)
    if not slots:
        return rng.choice(([], {}, 0, "", None))
    node, key = rng.choice(slots)
    value = node[key]
    if isinstance(node, dict) and rng.random() < 0.25:
        node[rng.choice(NAMES)] = node.pop(key)
    elif isinstance(value, int) and not isinstance(value, bool):
        node[key] = rng.choice((*EXTREME, value + 1, -value, 1.5, True, "1", *NUMBERS))
    elif isinstance(value, str):
        node[key] = rng.choice((*CODES, *NAMES))
    elif isinstance(value, list) and rng.random() < 0.7:
        node[key] = rng.choice(([], value * 2, value[:1], [1] * 70, [2**31] * 3, [0, 2**62], [value], None))
    elif rng.random() < 0.5:
        del node[key]
    else:
        node[key] = rng.choice((None, [], {}, 0, "", _nested(rng.choice((10, 2000)))))
    return tree


def _nested(depth: int) -> list:
    inner: list = []
    for _ in range(depth):
        inner = [inner]
    return inner


STRUCTURES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "safetensors": _headed,
    "json": _plain,
    "bpk": _burnpack,
    "npz": _archive,
    "pt": _archive,
    "npy": _array,
}
