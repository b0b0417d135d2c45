"""Files that are something else than a model, recognised by their first bytes. Enter at `refuse` and `recognise`."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from burn.errors import ModelError, Problem
from burn.runtime import files

READ = 4096
"""Bytes of a file that are looked at."""

PROGRAMS = "burn.load reads .onnx, .pt2 (torch.export), StableHLO and artefacts of jax.export, .mlir and .burn"


@dataclass(frozen=True)
class Stranger:
    """what: "a GGUF file (llama.cpp)". hint: how to get a program of it. weights: how to get its weights, if not so."""

    what: str
    hint: str
    weights: str = ""


_EXPORT_KERAS = "in Keras 3: model.export('model.onnx', format='onnx')"
_EXPORT_TORCH = "torch.onnx.export(module, ..., dynamo=True) or torch.export.save writes one of the module itself"
_NOT_LLAMA = "take the model's ONNX or safetensors files"
_MADE_FROM = "take the model that it was made from"
_SAVE = "save the weights as safetensors"
_UNPACK = "unpack it first"

_ALONE = "give them to a module, module.load(path), or to burn-import with --into"
WEIGHTS = Stranger("weights alone", _ALONE)

_MAGICS: tuple[tuple[int, bytes, Stranger], ...] = (
    (0, b"GGUF", Stranger("a GGUF file (llama.cpp)", _NOT_LLAMA, "its quantised weights are not read")),
    (0, b"ggml", Stranger("a GGML file (llama.cpp)", _NOT_LLAMA)),
    (4, b"TFL3", Stranger("a TensorFlow Lite model", "python -m tf2onnx.convert --tflite model.tflite --output model.onnx")),
    (4, b"ORTM", Stranger("a model in ONNX Runtime's own format (.ort)", "take the .onnx file that it was made from")),
    (0, b"\x89HDF\r\n\x1a\n", Stranger("an HDF5 file (Keras keeps models in such)", _EXPORT_KERAS, _SAVE)),
    (0, b"version https://git-lfs.github.com/spec/", Stranger("a git-lfs pointer, not the file", "git lfs pull brings it")),
    (0, b"\x93NUMPY", WEIGHTS),
    (0, b"NRUB", WEIGHTS),
    (0, b"BURNPROG", Stranger("a compiled program", "burn.load and burn run take it if its name ends in .burn")),
    (0, b"\x7fELF", Stranger("a program or library of Linux", "burn does not run it")),
    (0, b"MZ", Stranger("a program or library of Windows", "burn does not run it")),
    (0, b"\xcf\xfa\xed\xfe", Stranger("a program or library of macOS", "burn does not run it")),
    (0, b"\x1f\x8b", Stranger("a file compressed by gzip", _UNPACK)),
    (0, b"BZh", Stranger("a file compressed by bzip2", _UNPACK)),
    (0, b"\xfd7zXZ\0", Stranger("a file compressed by xz", _UNPACK)),
    (0, b"\x28\xb5\x2f\xfd", Stranger("a file compressed by zstd", _UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", Stranger("a 7z archive", _UNPACK)),
    (0, b"Rar!", Stranger("a RAR archive", _UNPACK)),
    (257, b"ustar", Stranger("a tar archive", _UNPACK)),
    (0, b"SQLite format 3\0", Stranger("an SQLite database", "burn.data.Sqlite reads its rows")),
    (0, b"PAR1", Stranger("a Parquet file", "burn.data reads its rows")),
    (0, b"\x89PNG\r\n\x1a\n", Stranger("an image (PNG)", "it is no model")),
    (0, b"\xff\xd8\xff", Stranger("an image (JPEG)", "it is no model")),
    (0, b"%PDF-", Stranger("a PDF document", "it is no model")),
    (0, b"ftrt", Stranger("a TensorRT engine", "take the .onnx file that it was made from")),
)  # fmt: skip
"""(offset, bytes there, what begins so)."""

_MEMBERS: tuple[tuple[Callable[[set[str]], bool], Stranger], ...] = (
    (lambda names: any(_ends(n, "constants.pkl") for n in names) and any("/code/" in f"/{n}" for n in names),
     Stranger("a TorchScript archive (torch.jit.save)", f"burn does not read its code; {_EXPORT_TORCH}")),
    (lambda names: any(_ends(n, "models/model.json") for n in names),
     Stranger("a program of torch.export", "its name must end in .pt2", "burn.load and burn-import read it")),
    (lambda names: "metadata.json" in names and "config.json" in names,
     Stranger("a Keras model", _EXPORT_KERAS, _SAVE)),
    (lambda names: any(_ends(n, "data.pkl") for n in names), Stranger("weights alone (torch.save)", _ALONE)),
    (lambda names: any(n.endswith(".npy") for n in names), WEIGHTS),
    (lambda names: any(n.endswith(".mlmodel") for n in names), Stranger("a Core ML package", _MADE_FROM)),
)  # fmt: skip
"""(of the names in a zip archive, what has such)."""

_ENDINGS = {
    ".mlmodel": Stranger("a Core ML model", _MADE_FROM),
    ".pb": Stranger("a TensorFlow graph", "python -m tf2onnx.convert --saved-model FOLDER --output model.onnx"),
    ".pdmodel": Stranger("a Paddle model", "paddle2onnx --model_dir FOLDER --save_file model.onnx"),
    ".caffemodel": Stranger("a Caffe model", "convert it to ONNX"),
    ".joblib": Stranger("a pickle of joblib (scikit-learn)", "skl2onnx.to_onnx(model, x) gives an ONNX model"),
    ".pkl": Stranger(
        "a pickle, which cannot be read without running it", "skl2onnx.to_onnx or torch.onnx.export write ONNX"
    ),
    ".py": Stranger(
        "Python source", "burn.compile compiles what it defines; on the command line name it: file.py:Name"
    ),
    ".param": Stranger("an ncnn model", _MADE_FROM),
}
"""By the ending of the name: such files begin like others, and are looked at where they cannot be read."""


def recognise(start: bytes, path: Path | None = None) -> Stranger | None:
    """Recognises a file by its first bytes, if it is no program that burn reads. path: where it is, to look into archives.

    A program's text is none of these: MLIR, and the protobuf of ONNX."""
    from burn.importers.weights import torch_file  # imports this module

    for offset, magic, stranger in _MAGICS:
        if start.startswith(magic, offset) and (
            offset != 4 or start[2:4] == b"\0\0"
        ):  # a FlatBuffer's first offset is small
            return stranger
    if start.startswith((b"PK\3\4", b"PK\5\6")):
        return _archive(path)
    if len(start) > 9 and start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 1 << 32:
        return Stranger("weights alone (safetensors)", _ALONE)
    if start[:1] == b"\x80" and torch_file.is_legacy(start):
        return Stranger("weights alone (torch.save)", _ALONE)
    if start[:1] == b"\x80" and start[1:2] <= b"\x05" and start[2:3] in b"\x95}](cKX\x8aM\x8c":
        return Stranger("a pickle", "it cannot be read without running it", "it cannot be read without running it")
    return _text(start)


def perhaps(start: bytes, path: Path | None) -> Stranger | None:
    """Guesses the kind of a file that cannot be read as an ONNX model: by its name, or as it has nothing but text."""
    if path is not None and path.suffix.lower() in _ENDINGS:
        return _ENDINGS[path.suffix.lower()]
    if not start.decode("utf-8", "ignore").replace("\n", "").replace("\r", "").replace("\t", "").isprintable():
        return None
    if b"func.func" in start or b"stablehlo." in start:
        return Stranger("MLIR's text", "the name of a program of burn's ends in .mlir")
    return Stranger("a text file", PROGRAMS)


def refuse(path: Path) -> None:
    """Raises ModelError for a file that is certainly no program, or none of the kind that its name says: one sentence that says
    what it is and what to do. Raises it too for what cannot be read."""
    try:
        handle, status = files.opened(path)
        with open(handle, "rb") as file:
            start = file.read(READ)
    except OSError as error:
        raise ModelError(f"cannot read {path}", [error.strerror or str(error)]) from None
    if not status.st_size:
        raise ModelError(f"{path} is empty", [Problem("it has no bytes", hint="copy or download it again")])
    found = recognise(start, path)
    if found is not None and not (path.suffix == ".pt2" and found is _MEMBERS[1][1]):
        raise refusal(path, found)


def refusal(path: Path | str, found: Stranger) -> ModelError:
    return ModelError(f"{path} holds no program that burn reads", [Problem(f"it is {found.what}", hint=found.hint)])


def _archive(path: Path | None) -> Stranger | None:
    names: set[str] = set()
    if path is not None:
        try:
            with zipfile.ZipFile(path) as archive:
                names = set(archive.namelist())
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError):
            return None if path.suffix == ".pt2" else Stranger("a damaged zip archive", "copy or download it again")
    for has, stranger in _MEMBERS:
        if has(names):
            return stranger
    return None if path is not None and path.suffix == ".pt2" else Stranger("a zip archive", f"{PROGRAMS}: {_UNPACK}")


def _ends(name: str, end: str) -> bool:
    return name == end or name.endswith(f"/{end}")


def _text(start: bytes) -> Stranger | None:
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return Stranger(
            "an HTML page", "the download failed: the site may want a login, or this is a page about the file"
        )
    if text.startswith((b"<?xml", b"<net ")):
        return Stranger("XML text (OpenVINO keeps graphs in such)", "take the .onnx file that it was made from")
    if text.startswith((b'{"', b"{\n", b"{}", b"[{", b'["', b"{ ")):
        return Stranger("JSON text", PROGRAMS)
    return None
