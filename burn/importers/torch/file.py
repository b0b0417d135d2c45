"""`.pt2` files: programs that `torch.export.save` wrote. Enter at `read_pt2` and `import_pt2`.

torch's own reader trusts a file. It unpickles some of its parts, evaluates its size expressions as Python, loads compiled
libraries, imports modules and calls whatever function a node names. So the archive is checked first. One that needs any of
is refused, and the error lists all problems. Also, torch and Python may disagree on the contents of a zip archive (which of two
entries of one name counts, whether letter case does). So torch receives a fresh archive of the checked entries, not the file
itself. It contains JSON, plain tensors, and no example inputs.
"""

from __future__ import annotations

import ast
import functools
import json
import math
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from burn.dialect.program import Program
from burn.errors import ModelError, Problem
from burn.importers.torch.containers import know_those_of
from burn.importers.torch.exported import import_program
from burn.importers.torch.guards import read_guards
from burn.importers.torch.noise import quiet

MAX_JSON = 1 << 30
"""A graph's description of more bytes than this is refused before it is read."""

MAX_MARK = 256
"""The bytes that an archive's version, format and serial number may take."""

MODEL = "models/model.json"
CONFIGS = {"data/weights/model_weights_config.json": "weight_", "data/constants/model_constants_config.json": "tensor_"}
"""The descriptions of stored tensors, with how the names of their files begin."""

EXAMPLES = "data/sample_inputs/model.pt"
"""Pickled example inputs: torch requires the entry, and ignores an empty one."""

MARKS = re.compile(r"archive_format|archive_version|byteorder|\.data/(version|serialization_id)")
TENSORS = re.compile(r"data/(weights/weight|constants/tensor)_[0-9]+")
LEFT_OUT = re.compile(rf"{re.escape(EXAMPLES)}|extra/.+|\.(format_version|storage_alignment)", re.DOTALL)
"""Entries that the copy for torch is made of, and those that are known and not needed."""

REFUSED = (
    ("data/aotinductor/", "is compiled code", "export the program, not its compiled form"),
    ("data/constants/", "is a pickled object, which could run code", ""),
    ("data/weights/", "is a pickled object, which could run code", "save the program with a newer torch"),
    ("", "is nothing that torch.export.save writes", ""),
)
"""Other entries, by the start of their names: a description, and how to remove them."""

TARGET = re.compile(
    r"torch\.ops\.(aten|prims|higher_order)\.\w+(\.\w+)?"
    r"|_operator\.(add|sub|mul|floordiv|truediv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem)"
    r"|torch\.sym_\w+|math\.(ceil|floor|trunc|sqrt|log|log2|exp|sin|cos|pow)"
)
"""The allowed targets of nodes: operators, and the arithmetic of sizes."""

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


MAX_EXPRESSION = 1 << 14
"""The characters that a size expression may have; torch's longest are of some hundreds."""
MAX_PARTS = 2000
"""The nodes of Python's syntax tree that it may have."""
MAX_NUMBER = 1 << 64
MAX_EXPONENT = 4
DIGITS = r"-?[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?"
"""A number that is written as a string, as those of floats are."""

POWERS = {"Pow", "PowByNatural", "FloatPow"}
SHIFTS = {"LShift", "RShift", "RoundDecimal"}
"""Calls whose result grows with the value of the second operand, which is therefore to be a small number."""

FACTORIES = {"list", "dict", "set", "tuple", "int", "float", "bool", "str"}
"""The allowed factories of a defaultdict among a program's inputs: torch imports the module that it names."""


def read_pt2(path: str | os.PathLike[str]) -> ExportedProgram:
    """The exported program in a file, without its example inputs.

    Raises ModelError for a file that is no such program, or that would run code when read.
    """
    path = Path(path)
    try:
        with path.open("rb") as file, tempfile.TemporaryDirectory() as folder:
            with _archive(file, path) as archive:
                try:
                    copy = _checked_copy(archive, os.fstat(file.fileno()).st_size, path, Path(folder) / "program.pt2")
                except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
                    raise ModelError(f"{path} is damaged", [str(error) or type(error).__name__]) from None
            return _load(copy, path.name)
    except OSError as error:
        raise ModelError(f"cannot read {path}", [error.strerror or str(error)]) from None


def import_pt2(path: str | os.PathLike[str], dims: Mapping[str, int] | None = None) -> Program:
    """The program in a `.pt2` file as one of burn's. dims: values for named sizes. Raises ModelError."""
    return import_program(read_pt2(path), dims=dims).program


def _load(copy: Path, name: str) -> ExportedProgram:
    logged: list[str] = []
    try:
        with zipfile.ZipFile(copy) as archive:
            know_those_of(archive.read(f"program/{MODEL}"))
        with quiet() as logged:
            exported = torch.export.load(copy)
    except ModelError:
        raise
    except Exception as error:  # a description that is no valid program raises whatever it meets first
        reason = f"{type(error).__name__}: {str(error).strip() or 'no reason given'}"
        raise ModelError(f"torch cannot read {name}", logged or [reason]) from error
    list(
        read_guards(exported)
    )  # torch executes them as Python when the program is made a module: refused if they are more
    return exported


# ---- looking through the archive ----------------------------------------------------------------------------------------
def _archive(file: Any, path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ModelError(f"{path} is no .pt2 file", [f"it is no zip archive: {error}"]) from None


def _checked_copy(archive: zipfile.ZipFile, size: int, path: Path, to: Path) -> Path:
    """A new archive of the entries that torch needs, each of the bytes that were looked at.

    size: the bytes of the file. Raises ModelError with everything that is wrong.
    """
    problems = list(_misplaced(archive, size))
    entries = {entry.filename.partition("/")[2]: entry for entry in archive.infolist()}
    described: dict[str, bytes] = {}
    if not problems:  # now every name stands for one entry, of no more bytes than the file has
        described = {name: archive.read(entry) for name, entry in entries.items() if name == MODEL or name in CONFIGS}
        for name, content in described.items():
            problems += _in_description(content, name, entries)
    if problems:
        raise ModelError(f"{path} is refused", dict.fromkeys(problems))
    with zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as copy:
        for name, entry in entries.items():
            if name in described:
                copy.writestr(f"program/{name}", described[name])
            elif MARKS.fullmatch(name) or TENSORS.fullmatch(name):
                big = entry.file_size >= 1 << 31
                with archive.open(entry) as old, copy.open(f"program/{name}", "w", force_zip64=big) as new:
                    shutil.copyfileobj(old, new, 1 << 20)
        copy.writestr(f"program/{EXAMPLES}", b"")
    return to


def _misplaced(archive: zipfile.ZipFile, size: int) -> Iterator[Problem]:
    """Problems of the list of entries; no entry is read."""
    seen: set[str] = set()
    roots: set[str] = set()
    models = total = 0
    for entry in archive.infolist():
        root, inside, name = entry.filename.partition("/")
        total += entry.file_size
        models += name.startswith("models/")
        if not inside or not root:
            yield Problem(
                f"'{entry.filename}' is outside of the folder that holds the program",
                hint="files of torch before 2.8 are pickled in part: save the program with a newer torch",
            )
            continue
        roots.add(root)
        if entry.filename.casefold() in seen:
            yield Problem(f"'{name}' is in it more than once, but for letter case")
        seen.add(entry.filename.casefold())
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            yield Problem(f"'{name}' is compressed, which torch never writes")
        if entry.flag_bits & 1:
            yield Problem(f"'{name}' is encrypted, which torch never writes")
        if name == MODEL or name in CONFIGS or MARKS.fullmatch(name):
            limit = MAX_MARK if MARKS.fullmatch(name) else MAX_JSON
            if entry.file_size > limit:
                yield Problem(f"'{name}' of {entry.file_size} bytes is larger than {limit}")
        elif not (TENSORS.fullmatch(name) or LEFT_OUT.fullmatch(name)) and not name.startswith("models/"):
            what, hint = next((what, hint) for prefix, what, hint in REFUSED if name.startswith(prefix))
            yield Problem(f"'{name}' {what}", hint=hint)
    if len(roots) > 1:
        yield Problem(f"it has the folders {', '.join(map(repr, sorted(roots)))}, not one")
    if total > size:
        yield Problem(f"its entries have {total} bytes, more than the {size} of the file")
    if models != 1:
        yield Problem(f"there are {models} programs in it, not one")
    elif not any(entry.filename.partition("/")[2] == MODEL for entry in archive.infolist()):
        yield Problem(f"its program is not called '{MODEL}'")


def _in_description(content: bytes, name: str, entries: Mapping[str, zipfile.ZipInfo]) -> Iterator[Problem]:
    try:
        description = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        yield Problem(f"'{name}' is no JSON: {error}")
        return
    yield from _in_json(description, name)
    if name in CONFIGS:
        yield from _in_config(description, name, entries)


def _in_config(description: Any, name: str, entries: Mapping[str, zipfile.ZipInfo]) -> Iterator[Problem]:
    """Tensors that are in no file of plain numbers; and of a size that their file does not hold, which torch allocates."""
    tensors = description.get("config") if isinstance(description, dict) else None
    if not isinstance(tensors, dict) or not all(isinstance(tensor, dict) for tensor in tensors.values()):
        yield Problem(f"'{name}' is no table of tensors")
        return
    for tensor, stored in tensors.items():
        file = stored.get("path_name")
        if not isinstance(file, str) or not re.fullmatch(rf"{CONFIGS[name]}[0-9]+", file):
            yield Problem(f"'{name}' has '{tensor}' in the file {file!r}, which is none of plain numbers")
            continue
        entry = entries.get(f"{os.path.dirname(name)}/{file}")
        if entry is None or entry.file_size > 0:
            continue  # torch checks that the numbers are there, and says what is missing
        try:
            count = math.prod(int(size["as_int"]) for size in stored["tensor_meta"]["sizes"])
        except (KeyError, TypeError, ValueError):
            count = None
        if count != 0:
            yield Problem(f"'{name}' has '{tensor}' in '{file}', which is empty")


def _in_json(content: Any, name: str) -> Iterator[Problem]:
    """Forbidden names in a description, at any depth."""
    pending = [content]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, str) and value.lstrip()[:1] in ("{", "["):  # containers' descriptions are JSON in JSON
            try:
                pending.append(json.loads(value))
            except (ValueError, RecursionError):
                continue
        if not isinstance(value, dict):
            continue
        pending += value.values()
        if value.get("use_pickle", False) is not False:  # torch takes anything that is true
            yield Problem(f"'{name}' has the pickled tensor '{value.get('path_name')}', which could run code")
        target = value.get("target")
        if isinstance(target, str) and "inputs" in value and not TARGET.fullmatch(target):
            yield Problem(f"'{name}' has a node that calls '{target}', which is no operator that burn supports")
        expression = value.get("expr_str")
        if expression is not None and not _is_size(expression):
            yield Problem(f"'{name}' has the size expression {expression!r}, which is no arithmetic of sizes")
        if "__enum__" in value:
            yield Problem(f"'{name}' has an input or output of the type {value.get('fqn')!r}, which would be imported")
        factory = (value.get("default_factory_module", "builtins"), value.get("default_factory_name", "list"))
        if factory[0] != "builtins" or factory[1] not in FACTORIES:
            yield Problem(f"'{name}' has a defaultdict of {factory[0]}.{factory[1]}, which would be imported")
        ranges = value.get("range_constraints")
        for symbol in ranges if isinstance(ranges, dict) else ():
            plain = re.fullmatch(r"[A-Za-z_]+[0-9]{0,6}", symbol)  # torch counts up to the number
            if not plain and (symbol.startswith("u") or not _is_size(symbol)):  # '4*s6': a multiple of a size
                yield Problem(f"'{name}' has a size called {symbol[:40]!r}")


# ---- size expressions ---------------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=4096)
def _is_size(text: Any) -> bool:
    """True if a size expression consists of calls of sympy's arithmetic on numbers and names, and is quick to evaluate."""
    if (
        not isinstance(text, str)
        or len(text) > MAX_EXPRESSION
        or not re.fullmatch(r"[\w .,()+\-*/%<>=!&|~'\"]*", text, re.A)
    ):
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = list(ast.walk(tree))
    return len(nodes) <= MAX_PARTS and all(map(_is_arithmetic, nodes)) and all(map(_is_bounded, nodes))


def _is_arithmetic(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in EXPRESSIONS or node.id in ("true", "false") or re.fullmatch(r"[a-z]\d+", node.id) is not None
    if isinstance(node, ast.Call):
        return _called(node) in EXPRESSIONS
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return node.value.isidentifier() or re.fullmatch(DIGITS, node.value) is not None
        return isinstance(node.value, (int, float)) and abs(node.value) <= MAX_NUMBER
    if isinstance(node, ast.keyword):  # an assumption about a symbol, or a float's bits
        return node.arg is not None and isinstance(node.value, ast.Constant) and node.value.value in (True, False, 53)
    operations = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr)
    allowed = (ast.Expression, ast.Load, ast.BinOp, ast.UnaryOp, ast.Compare, ast.unaryop, ast.cmpop, *operations)
    return isinstance(node, allowed)


def _is_bounded(node: ast.AST) -> bool:
    """True if the value of a part has no more digits than its text, up to a small factor: one power, and none of a power."""
    called = _called(node)
    if called == "Float":  # a second operand is the digits to compute
        return isinstance(node, ast.Call) and len(node.args) == 1
    if called not in POWERS | SHIFTS:
        return True
    operands = (
        [node.left, node.right] if isinstance(node, ast.BinOp) else node.args if isinstance(node, ast.Call) else []
    )
    if len(operands) != 2 or not _is_small(operands[1]):
        return False
    if called == "FloatPow":  # of floats, which stay of one length
        return True
    return not any(_called(part) in POWERS | SHIFTS for part in ast.walk(operands[0]))


def _called(node: ast.AST) -> str:
    """The name of the function that a part of an expression calls; "" if it calls none."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return "Pow"
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _is_small(node: ast.AST) -> bool:
    """True if a part is a literal number, or the quotient of two, and fit for an exponent."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    if _called(node) in ("Integer", "Float", "Rational") and isinstance(node, ast.Call):
        return all(map(_is_small, node.args))
    if not isinstance(node, ast.Constant):
        return False
    if isinstance(node.value, str):
        return re.fullmatch(DIGITS, node.value) is not None and abs(float(node.value)) <= MAX_EXPONENT
    return isinstance(node.value, (int, float)) and abs(node.value) <= MAX_EXPONENT
