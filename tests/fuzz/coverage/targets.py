"""One function of bytes for each reader that meets files of strangers. `TARGETS` by name."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from burn.errors import BurnError

LARGE = 1 << 26  # bytes of a tensor that is read whole


@dataclass(frozen=True)
class Target:
    """A reader under the fuzzer.

    `read`: processes the bytes; it may raise BurnError and nothing else. `modules`: modules with branch coverage.
    `seeds`: initial files. `words`: words of the format, for a dictionary."""

    read: Callable[[bytes], object]
    modules: tuple[str, ...]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = ()


def checked(target: Target, data: bytes) -> None:
    """Raises what a reader must not raise."""
    try:
        target.read(data)
    except BurnError as error:
        text = str(error)  # which has to be printable
        text.encode()
        if "internal" in error.summary or "could not be imported: " in text:
            raise AssertionError(f"an exception in a BurnError's clothes: {text}") from error


@cache
def _folder() -> Path:
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="burn-fuzz-", dir=shared if shared.is_dir() else None))


def _file(data: bytes, name: str) -> Path:
    path = _folder() / f"{os.getpid()}-{name}"
    path.write_bytes(data)
    return path


# ---- readers ---------------------------------------------------------------------------------------------------------------


def protobuf(data: bytes) -> None:
    from burn.importers.onnx.check import check_model
    from burn.importers.onnx.file import read_model

    check_model(read_model(data))


def weights(name: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        from burn.importers import weights as readers

        for weight in readers.read(_file(data, name)).values():
            if weight.nbytes <= LARGE:
                weight.array().tobytes()

    return read


def pickle(data: bytes) -> None:
    from burn.importers.weights.pickle import load

    load(memoryview(data), "fuzz", script=bool(data) and data[-1] % 2 == 1)


def package(data: bytes) -> None:
    """The bytes are the header's; what is around them is right, as a checksum is no hurdle to who writes a file."""
    from burn.runtime import package as packages

    code, constants = bytes(256), bytes(256)
    code_at = -(-(128 + len(data)) // 64) * 64
    constants_at = -(-(code_at + len(code)) // 4096) * 4096
    end = constants_at + len(constants)
    digest = hashlib.sha256(data + code).digest()
    prefix = struct.pack(
        "<8sII7Q32sQ",
        b"BURNPROG",
        packages.VERSION,
        0,
        end,
        128,
        len(data),
        code_at,
        len(code),
        constants_at,
        len(constants),
        digest,
        0,
    )
    content = bytearray(end)
    content[: len(prefix)] = prefix
    content[128 : 128 + len(data)] = data
    packages.read(_file(bytes(content), "p.burn"))


ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, -(2**70), 1e400, 0.5, "", "n", "n * 2", "1 // 0", "n ** 9", "min(n, -1)", "\0",
    "\ud800", "float32", "string", "x" * 300, [], [[]], [-1], [1, 2, 3], {}, {"offset": 0, "bytes": 8},
    {"offset": 64, "bytes": 2**40},
)  # fmt: skip


def changed_header(data: bytes) -> None:
    """The bytes say what of a right header becomes something odd: four for each change."""
    header = json.loads(_headers()[0])
    for at in range(0, len(data) - 3, 4):
        paths = [
            (each, key)
            for each in _containers(header)
            for key in (each if isinstance(each, dict) else range(len(each)))
        ]
        if not paths:
            break
        container, key = paths[int.from_bytes(data[at : at + 2], "little") % len(paths)]
        if data[at + 2] % 8:
            container[key] = copy.deepcopy(ODD[data[at + 3] % len(ODD)])
        else:
            del container[key]
    package(json.dumps(header).encode())


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)


def package_file(data: bytes) -> None:
    from burn.runtime import package as packages

    packages.read(_file(data, "q.burn"))


def text(data: bytes) -> None:
    from burn.dialect.text import parse_text

    parse_text(data.decode("utf-8", "replace"))


ENDINGS = ("onnx", "mlir", "pt", "npz", "safetensors", "bpk", "json", "h5", "gguf", "tflite", "zip", "pb")
HEADS = (
    b"", b"GGUF\x03\0\0\0", b"\x89HDF\r\n\x1a\n", b"\x1c\0\0\0TFL3", b"PK\3\4", b"PK\5\6", b"\x93NUMPY\x01\0", b"NRUB",
    b"\x80\x02",
    b"version https://git-lfs.github.com/spec/v1\n", b"<!DOCTYPE html>", b"{", b"\x08\x08", b"func.func @main(",
    b"\x1f\x8b",
)  # fmt: skip


def any_file(data: bytes) -> None:
    """The first two bytes choose the name's ending, and how the file begins."""
    from burn.errors import ModelError
    from burn.importers import weights as readers
    from burn.loading import read_program

    if len(data) < 2:
        return
    path = _file(HEADS[data[1] % len(HEADS)] + data[2:], f"any.{ENDINGS[data[0] % len(ENDINGS)]}")
    try:
        read_program(path)
    except ModelError as error:
        str(error).encode()
    readers.read(path)


# ---- what they begin with --------------------------------------------------------------------------------------------------


def _models() -> list[bytes]:
    from tests.fuzz.spoiled_models.mutate import sources

    return [model for model in sources() if len(model) < 2000][::20]


def _weight_files(ending: str) -> list[bytes]:
    from tests.fuzz.spoiled_weights.sources import sources

    return [data for files in sources() for name, data in files.items() if name.endswith(ending)]


def _pickles() -> list[bytes]:
    import pickle as own

    values = {"a": [1, 2.5, "x", b"y", None, True, (1, 2, 3, 4)], "b": {"c": {1, 2}}, "n": 1 << 70}
    made = [own.dumps(values, protocol) for protocol in range(own.HIGHEST_PROTOCOL + 1)]
    return made + [_member(data, "data.pkl") for data in _weight_files(".pt")]


def _member(archive: bytes, end: str) -> bytes:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return opened.read(next(name for name in opened.namelist() if name.endswith(end)))


@cache
def _package() -> bytes:
    import burn
    from burn.runtime import package as packages

    path = _folder() / "seed.burn"
    packages.save([burn.compile(lambda x: burn.softmax(x @ x, -1), ("float32[n, n]",)).artefact], path)
    return path.read_bytes()


def _headers() -> list[bytes]:
    at, length = struct.unpack_from("<QQ", _package(), 24)
    header = json.loads(_package()[at : at + length])
    return [_package()[at : at + length], json.dumps({"programs": [{**header["programs"][0], "kernels": []}]}).encode()]


def _texts() -> Iterator[str]:
    import burn
    from burn.dialect.text import to_text
    from burn.tracing.trace import trace

    yield to_text(trace(lambda x: burn.softmax(x, -1), {"x": "float32[n, 4]"}))
    yield to_text(trace(lambda x, y: burn.concat([x, y * 2.0])[1:], {"x": "float32[n]", "y": "float32[m]"}))
    type_ = 'tensor<?xf32, ["n"]>'
    yield f'func.func @main(%x: {type_} {{burn.name = "x"}}) -> ({type_}) {{ "burn.return"(%x) : ({type_}) -> () }}'


ZIP = (b"PK\1\2", b"PK\3\4", b"PK\5\6", b"\x93NUMPY")
CBOR = (b"\xa1", b"\x9f\xff", b"\x5f", b"\xc2\x58", b"\xd8\x1c", b"\xd8\x1d\x00")
PICKLE = (b"c__builtin__\ngetattr\n", b"\x80\x02", b"ctorch._utils\n_rebuild_tensor_v2\n", b"\x85R", b"\x81b")
JSON = (b'"n * 2"', b'"min(n, 3)"', b"null", b"1e400", b"[[", b"{}", b"-1")
ENTRY = (b'"dtype"', b'"shape"', b'"data_offsets"', b'"F32"')
OPS = (
    b'"burn.',
    b"tensor<",
    b"xf32",
    b'["n"]',
    b"func.func",
    b"%0",
    b"array<i64: 1>",
    b"dense<",
    b"segments",
    b"#burn",
)

READERS = ("burn.importers.weights",)
PACKAGES = ("burn.runtime.package", "burn.runtime.artefact", "burn.runtime.sizes")

TARGETS = {
    "protobuf": Target(protobuf, ("burn.importers.onnx",), _models),
    "npz": Target(weights("w.npz"), READERS, lambda: _weight_files(".npz") + _weight_files(".npy"), ZIP),
    "torch": Target(weights("w.pt"), READERS, lambda: _weight_files(".pt"), ZIP),
    "pickle": Target(pickle, READERS, _pickles, PICKLE),
    "cbor": Target(weights("w.bpk"), (*READERS, "cbor2"), lambda: _weight_files(".bpk"), CBOR),
    "safetensors": Target(weights("w.safetensors"), READERS, lambda: _weight_files(".safetensors"), ENTRY),
    "header": Target(package, PACKAGES, _headers, JSON),
    "changed": Target(changed_header, PACKAGES, lambda: [bytes([i, 0, 1, i * 7 % 256]) * 2 for i in range(64)]),
    "package": Target(package_file, PACKAGES, lambda: [_package()[:8192], _package()]),
    "any": Target(
        any_file, ("burn.importers", "burn.loading"), lambda: [bytes([i, i * 5 % 256]) + bytes(40) for i in range(64)]
    ),
    "mlir": Target(text, ("burn.dialect",), lambda: [each.encode() for each in _texts()], OPS),
}
