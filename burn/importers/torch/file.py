"""`.pt2` files: programs that `torch.export.save` wrote. Enter at `read_pt2` and `import_pt2`.

torch's own reader trusts a file: it unpickles some of its parts, evaluates its size expressions as Python, loads compiled
libraries out of it and calls whatever function a node names. So the archive is looked through first, and one that asks for
any of that is refused with everything found; what is left for torch to read are JSON, plain tensors, and operators.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from burn.dialect.program import Program
from burn.errors import ModelError, Problem
from burn.importers.torch.exported import import_program
from burn.importers.torch.noise import quiet

MAX_JSON = 1 << 30
"""A graph's description of more bytes than this is refused before it is read."""

TARGET = re.compile(
    r"torch\.ops\.(aten|prims|higher_order)\.\w+(\.\w+)?"
    r"|_operator\.(add|sub|mul|floordiv|truediv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem)"
    r"|torch\.sym_\w+|math\.(ceil|floor|trunc|sqrt|log|log2|exp|sin|cos|pow)"
)
"""What a node may name: operators, and the arithmetic of sizes."""

EXPRESSIONS = {
    *("Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Max", "Min", "Mod", "PythonMod", "FloorDiv"),
    *(
        "CleanDiv",
        "ModularIndexing",
        "IntTrueDiv",
        "FloatTrueDiv",
        "ToFloat",
        "TruncToInt",
        "TruncToFloat",
        "FloorToInt",
    ),
    *("CeilToInt", "RoundToInt", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "Equality", "Unequality", "StrictLessThan"),
    *("LessThan", "StrictGreaterThan", "GreaterThan", "And", "Or", "Not", "Identity", "PowByNatural", "FloatPow"),
    *("RoundDecimal", "LShift", "RShift", "Where", "Piecewise", "ExprCondPair", "Abs"),
}
"""The calls that a size expression may be made of; torch writes and evaluates them as Python."""


def read_pt2(path: str | os.PathLike[str]) -> ExportedProgram:
    """The exported program in a file. Raises ModelError for a file that is none, or that would run code when read."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            problems = list(_problems(archive))
            examples = _example_files(archive) if not problems else []
            unsafe = [name for name in examples if not _plain(archive.read(name))]
            if problems:
                raise ModelError(f"{path} is refused", dict.fromkeys(problems))
            if unsafe:
                with tempfile.TemporaryDirectory() as folder:
                    return _load(_without(archive, unsafe, Path(folder) / "program.pt2"))
    except OSError as error:
        raise ModelError(f"cannot read {path}", [error.strerror or str(error)]) from None
    except zipfile.BadZipFile as error:
        raise ModelError(f"{path} is no .pt2 file", [f"it is no zip archive: {error}"]) from None
    return _load(path)


def import_pt2(path: str | os.PathLike[str], dims: Mapping[str, int] | None = None) -> Program:
    """The program in a `.pt2` file as one of burn's. dims: values for named sizes. Raises ModelError."""
    return import_program(read_pt2(path), dims=dims).program


def _load(path: Path) -> ExportedProgram:
    try:
        with quiet():
            return torch.export.load(path)
    except Exception as error:  # a description that is no valid program raises whatever it meets first
        reason = f"{type(error).__name__}: {str(error).strip() or 'no reason given'}"
        raise ModelError(f"torch cannot read {path.name}", [reason]) from error


# ---- looking through the archive ----------------------------------------------------------------------------------------
def _problems(archive: zipfile.ZipFile) -> Iterator[Problem]:
    models = 0
    for entry in archive.infolist():
        name = entry.filename.partition("/")[2]
        if entry.compress_type != zipfile.ZIP_STORED:
            yield Problem(f"'{name}' is compressed, which torch never writes")
        elif name.startswith("data/aotinductor/"):
            yield Problem(f"'{name}' is compiled code", hint="export the program, not its compiled form")
        elif name.startswith("data/constants/") and not name.endswith(".json") and "/tensor_" not in name:
            yield Problem(f"'{name}' is a pickled object, which could run code")
        elif name.endswith(".json") and name.startswith(("models/", "data/weights/", "data/constants/")):
            models += name.startswith("models/")
            if entry.file_size > MAX_JSON:
                yield Problem(f"'{name}' of {entry.file_size} bytes is larger than {MAX_JSON}")
                continue
            try:
                content = json.loads(archive.read(entry))
            except (ValueError, RecursionError) as error:
                yield Problem(f"'{name}' is no JSON: {error}")
                continue
            yield from _in_json(content, name)
    if models != 1:
        yield Problem(f"there are {models} programs in it, not one")


def _in_json(content: Any, name: str) -> Iterator[Problem]:
    """What a description names that must not be followed, at any depth."""
    pending = [content]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        if not isinstance(value, dict):
            continue
        pending += value.values()
        if value.get("use_pickle") is True:
            yield Problem(f"'{name}' has the pickled tensor '{value.get('path_name')}', which could run code")
        target = value.get("target")
        if isinstance(target, str) and "inputs" in value and not TARGET.fullmatch(target):
            yield Problem(f"'{name}' has a node that calls '{target}', which is no operator that burn knows")
        expression = value.get("expr_str")
        if expression is not None and not _is_size(expression):
            yield Problem(f"'{name}' has the size expression {expression!r}, which is no arithmetic")


def _is_size(text: Any) -> bool:
    """Whether a size expression is calls of sympy's arithmetic on numbers and names, and nothing else."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return False
    return all(map(_is_arithmetic, ast.walk(tree)))


def _is_arithmetic(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in EXPRESSIONS or node.id in ("true", "false") or re.fullmatch(r"[a-z]\d+", node.id) is not None
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in EXPRESSIONS
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) or (isinstance(node.value, str) and node.value.isidentifier())
    allowed = (
        ast.Expression,
        ast.keyword,
        ast.Load,
        ast.BinOp,
        ast.UnaryOp,
        ast.Compare,
        ast.operator,
        ast.unaryop,
        ast.cmpop,
    )
    return isinstance(node, allowed)


def _example_files(archive: zipfile.ZipFile) -> list[str]:
    return [e.filename for e in archive.infolist() if "/data/sample_inputs/" in e.filename]


def _plain(content: bytes) -> bool:
    """Whether the example inputs are tensors and Python's own containers, which torch reads without running anything."""
    try:
        torch.load(io.BytesIO(content), weights_only=True)
    except Exception:  # anything at all: then they are not read
        return not content
    return True


def _without(archive: zipfile.ZipFile, names: list[str], path: Path) -> Path:
    """A copy of the archive in which these files are empty: example inputs are not needed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as copy:
        for entry in archive.infolist():
            copy.writestr(entry.filename, b"" if entry.filename in names else archive.read(entry))
    return path
