"""burnpack (.bpk), the format of the Rust framework Burn: read mapped, and written.

The description is that of the crate burn-pack (https://github.com/tracel-ai/burn, crates/burn-pack). Little-endian:

    u32 0x4255524E | u16 version | u32 bytes of metadata | CBOR | zeros up to a multiple of 256 | the tensors' bytes

The CBOR is {"tensors": {name: {"dtype", "shape", "data_offsets": [begin, end], "param_id"?}}, "metadata"?: {text: text},
"scalars"?: {text: {"Int" | "UInt" | "Float" | "Bool": value}}}. Offsets count from the data's begin, and each tensor starts
at a multiple of 256. Element types are names ("F32") or, with a variant, a map ({"Bool": "Native"}).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import cbor2
import numpy as np

from burn.dialect.weights import MappedFile, Weight, array_weight, byte_size, mapped_weight
from burn.errors import ModelError, Problem
from burn.importers.weights.checkpoint import PRODUCER, Checkpoint, overlaps, replacing, write_weight

MAGIC = 0x4255524E
VERSION = 1
HEADER = struct.Struct("<IHI")
ALIGNMENT = 256
MAX_METADATA = 100 << 20  # the format's own limits
MAX_TENSORS = 100_000
MAX_DEPTH = 128

CODES = {
    "F64": "float64", "F32": "float32", "Flex32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
}  # fmt: skip
_NAMES = {name: code for code, name in CODES.items() if code != "Flex32"}
BOOLEANS = {"Native": 1, "U8": 1, "U32": 4}
"""Bytes that a boolean takes, by how it is kept."""


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Every tensor of a file by name, left in the file. Raises ModelError listing everything wrong with it."""
    file = MappedFile(path)
    content, start = _metadata(file)
    checkpoint = Checkpoint(path=path, kind="burnpack")
    checkpoint.take_metadata(content.get("metadata", {}))
    checkpoint.layout = checkpoint.layout or "burn"
    scalars = content.get("scalars", {})
    if isinstance(scalars, dict):
        checkpoint.ignored = {str(k): _scalar(v) for k, v in scalars.items()}
    problems: list[Problem] = []
    taken: list[tuple[int, int, str]] = []
    for name, entry in content["tensors"].items():
        try:
            code, shape, begin, end = _entry(entry)
            checkpoint[name] = _weight(file, start + begin, end - begin, code, shape)
            taken.append((begin, end, name))
        except ModelError as error:
            problems.append(Problem("; ".join([error.summary, *map(str, error.problems)]), tensor=name))
            continue
        identity = entry.get("param_id")
        if isinstance(identity, int):
            checkpoint.param_ids[name] = identity
    problems += overlaps(taken)
    if problems:
        raise ModelError(f"{path} is malformed", problems)
    return checkpoint


def write(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Weight],
    metadata: Mapping[str, str] | None = None,
    param_ids: Mapping[str, int] | None = None,
) -> None:
    """Writes the file whole or not at all, tensor by tensor; those of a mapped file are not held in memory.

    metadata: text to keep with them, by key; "producer" says that burn wrote it, so that names and axes are those of
    `burn.nn`. Raises ModelError listing tensors of element types that the format lacks."""
    problems = [
        Problem(f"the format has no {w.dtype}", tensor=n, hint="safetensors files have")
        for n, w in tensors.items()
        if w.dtype != "bool" and w.dtype not in _NAMES
    ]
    if len(tensors) > MAX_TENSORS:
        problems.append(Problem(f"the format has room for {MAX_TENSORS} tensors, not {len(tensors)}"))
    if problems:
        raise ModelError(f"{path} cannot be written", problems)
    entries: dict[str, Any] = {}
    offset = 0
    for name, weight in tensors.items():
        offset += -offset % ALIGNMENT
        size = byte_size(weight.dtype, weight.shape, packed=False)
        code = {"Bool": "Native"} if weight.dtype == "bool" else _NAMES[weight.dtype]
        entries[name] = {"dtype": code, "shape": list(weight.shape), "data_offsets": [offset, offset + size]}
        if param_ids and name in param_ids:
            entries[name]["param_id"] = param_ids[name]
        offset += size
    texts = {"format": "burnpack", "producer": PRODUCER, **(metadata or {})}
    encoded = cbor2.dumps({"tensors": dict(sorted(entries.items())), "metadata": dict(sorted(texts.items()))})
    if len(encoded) > MAX_METADATA:
        raise ModelError(f"{path} cannot be written", [f"its metadata would take {len(encoded)} bytes"])
    with replacing(path) as file:
        file.write(HEADER.pack(MAGIC, VERSION, len(encoded)))
        file.write(encoded)
        start = HEADER.size + len(encoded)
        start += file.write(bytes(-start % ALIGNMENT))
        for name, entry in entries.items():
            file.write(bytes(start + entry["data_offsets"][0] - file.tell()))
            write_weight(tensors[name], file)


def _metadata(file: MappedFile) -> tuple[dict[str, Any], int]:
    """The decoded CBOR, and the offset of the tensors' bytes."""
    what = f"{file.path} is not a burnpack file"
    if file.size < HEADER.size:
        raise ModelError(what, ["it is too short"])
    magic, version, length = HEADER.unpack(file.view(0, HEADER.size))
    if magic != MAGIC:
        raise ModelError(what, ["it begins otherwise"])
    if version > VERSION:
        raise ModelError(f"{file.path} is of a newer version", [f"version {version}; {VERSION} is known"])
    if length > min(MAX_METADATA, file.size - HEADER.size):
        raise ModelError(f"{file.path} is malformed", [f"its metadata would be of {length} bytes"])
    try:
        content = cbor2.loads(
            bytes(file.view(HEADER.size, length)),
            semantic_decoders=NoTags(),
            max_depth=MAX_DEPTH,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
        )
    except (cbor2.CBORError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        raise ModelError(f"{file.path} is malformed", [f"its metadata: {error}"]) from None
    tensors = content.get("tensors") if isinstance(content, dict) else None
    if not isinstance(tensors, dict) or not all(isinstance(name, str) for name in tensors):
        raise ModelError(f"{file.path} is malformed", ["its metadata has no table of tensors"])
    if len(tensors) > MAX_TENSORS:
        raise ModelError(f"{file.path} is malformed", [f"it says that it has {len(tensors)} tensors"])
    return content, HEADER.size + length + -(HEADER.size + length) % ALIGNMENT


class NoTags(Mapping[int, Any]):
    """Refuses CBOR's tags, which make dates, huge numbers and references: the format has none."""

    def __getitem__(self, tag: int) -> Any:
        def refuse(*_: Any) -> Any:
            raise ValueError(f"tag {tag} is not part of the format")

        return refuse

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _entry(entry: Any) -> tuple[Any, tuple[int, ...], int, int]:
    if not isinstance(entry, dict):
        raise ModelError("its entry is not a table")
    shape, offsets = _naturals(entry.get("shape")), _naturals(entry.get("data_offsets"))
    if shape is None or offsets is None or len(offsets) != 2 or "dtype" not in entry:
        raise ModelError("its entry lacks dtype, shape or data_offsets")
    if offsets[0] > offsets[1]:
        raise ModelError(f"the bytes from {offsets[0]} to {offsets[1]} make no sense")
    return entry["dtype"], shape, offsets[0], offsets[1]


def _naturals(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(v) is int and 0 <= v < 2**63 for v in value):
        return None
    return tuple(value)


def _weight(file: MappedFile, offset: int, length: int, code: Any, shape: tuple[int, ...]) -> Weight:
    kind, variant = next(iter(code.items())) if isinstance(code, dict) and len(code) == 1 else (code, "Native")
    if kind == "Bool" and isinstance(variant, str) and variant in BOOLEANS:
        size = byte_size("bool", shape) * BOOLEANS[variant]
        if length != size:
            raise ModelError(f"bool of shape {list(shape)} takes {size} bytes, not {length}")
        if BOOLEANS[variant] == 1:
            return mapped_weight(file, offset, length, "bool", shape)
        return array_weight((np.frombuffer(file.view(offset, length), "<u4") != 0).reshape(shape))
    if kind == "QFloat":
        raise ModelError("a quantised tensor (QFloat) cannot be read: save it dequantised")
    if not isinstance(kind, str) or kind not in CODES:
        raise ModelError(f"the element type {str(code)[:40]} is not supported")
    return mapped_weight(file, offset, length, CODES[kind], shape)


def _scalar(value: Any) -> str:
    inner = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    return str(inner)[:40]
