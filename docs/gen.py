"""Writes the reference of ops, layers and commands from the code itself.

    python docs/gen.py [FOLDER]        # docs/reference by default

Pages: one for each family of ops, for tensors and their functions, for `burn.nn`, `burn.data`, `burn.train` and
`burn.generation`, for the passes, ONNX Runtime's own operators and environment variables. All content comes from the code: the
element types of a function are those of its tests (tests/api/rows.py).
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import typing
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

import burn
from burn import data, generation, nn, ops, train
from burn.dialect import FAMILIES
from burn.dialect.adjoint import rules
from burn.dialect.mlir import context
from burn.dialect.op import REGISTRY, Op
from burn.dialect.types import DTYPES
from burn.tensors.functions import FREE, NAMES
from burn.variables import VARIABLES

HERE = Path(__file__).parent


def main(folder: Path) -> None:
    context()
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"ops-{family.replace('.', '-')}.md": op_page(family) for family in FAMILIES}
    pages["tensor.md"] = tensor_page()
    pages["nn.md"] = layer_page()
    pages["data.md"] = data_page()
    pages["train.md"] = train_page()
    pages["generation.md"] = generation_page()
    pages["derivatives.md"] = derivative_page()
    pages["passes.md"] = pass_page()
    pages["onnx-runtime-operators.md"] = vendor_page()
    pages["environment.md"] = environment_page()
    for name, text in pages.items():
        if text:
            (folder / name).write_text(text)
    written = sorted(name for name, text in pages.items() if text)
    index = [f"- [{name.removesuffix('.md')}]({name})" for name in written]
    (folder / "index.md").write_text("\n".join(["# Reference", "", *index, ""]))
    print(f"{len(written) + 1} pages in {folder}")


def op_page(family: str) -> str:
    """The ops that one module of the dialect defines."""
    module = import_module(f"burn.dialect.{family}")
    classes = [cls for cls in REGISTRY.values() if cls.__module__ == module.__name__]
    if not classes:
        return ""
    parts = [f"# {family.capitalize()}", "", inspect.cleandoc(module.__doc__ or ""), ""]
    for cls in classes:
        parts += op_entry(cls)
    return "\n".join(parts)


def op_entry(cls: type[Op]) -> list[str]:
    name = cls.OP_NAME
    public = next((n for n in (name, f"{name}_") if n in ops.names()), None)
    lines = [f"## {name}", ""]
    if public is not None:
        signature = signature_of(getattr(ops, public))
        lines += ["```python", f"burn.ops.{public}{signature}", "```", ""]
    derivative = f"Derivative: {derivative_of(name)}."
    kind = "primitive" if cls.decompose is None else "composite: it has a decomposition into other ops"
    return [*lines, inspect.cleandoc(cls.__doc__ or ""), "", f"`burn.{name}`, {kind}. {derivative}", ""]


DERIVATIVES = {
    "rule": "a rule of its own",
    "composite": "through what it is made of",
    "control": "its regions run again on the way back",
    "zero": "zero",
    "discrete": "none, for it holds no floats",
}


def derivative_of(name: str) -> str:
    kind = rules.kind(name)
    if kind == "rule" and name in rules.NONE:
        return f"{DERIVATIVES[kind]}, but {rules.NONE[name]}"
    return f"none: {rules.NONE[name]}" if kind == "none" else DERIVATIVES[kind]


def derivative_page() -> str:
    """How every op is differentiated."""
    parts = ["# Derivatives", "", inspect.cleandoc(import_module("burn.dialect.adjoint").__doc__ or ""), ""]
    rows = [
        f"| `{name}` | {derivative_of(name)} |"
        for name in sorted(REGISTRY)
        if name not in ops.STRUCTURAL - {"if", "loop"}
    ]
    return "\n".join([*parts, "| op | derivative |", "|---|---|", *rows, ""])


def signature_of(function: object) -> str:
    """Without the quotes that annotations come in, and without addresses."""
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", str(inspect.signature(function)))  # type: ignore[arg-type]
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


TENSOR_FAMILIES = {
    "Creation": "creation", "From other libraries": "promotion", "Functions of elements": "math",
    "Comparison, logic and bits": "logic",
    "Activations": "activations", "Conversion": "conversions", "Shapes": "shapes", "Rearranging elements": "manipulation",
    "Concatenation and selection": "concatenation", "Reductions": "reductions", "Statistics": "statistics",
    "Matmuls and contractions": "contractions",
    "Sorting and searching": "sorting", "Indexing": "indexing", "Updates": "at",
}  # fmt: skip
"""Headings, and the modules of burn.tensors whose functions stand under them."""

TENSOR_MODULES = ("linalg", "fft", "random", "control")


def tensor_page() -> str:
    """Every function of tensors: how it is called, what it does, and with which element types it is tested."""
    parts = ["# Tensors", "", inspect.cleandoc(import_module("burn.tensors.tensor").__doc__ or ""), ""]
    parts += [
        "Most functions are methods too: `burn.sum(x, 0)` is `x.sum(0)`. Element types are those that each function is"
    ]
    parts += [
        "tested with, against numpy, where "
        + "; ".join(f"{word}: {', '.join(kind_types(kind))}" for kind, word in KINDS.items())
        + ".",
        "",
    ]
    types_ = tested_types()
    for heading, module in TENSOR_FAMILIES.items():
        names = [n for n in NAMES if _home(n) == f"burn.tensors.{module}"]
        parts += function_table(heading, [(n, getattr(burn, n), f"burn.{n}") for n in names], types_)
    for module in TENSOR_MODULES:
        home = import_module("burn.tensors.control" if module == "control" else f"burn.{module}")
        prefix = "burn" if module == "control" else f"burn.{module}"
        public = [n for n in getattr(home, "__all__", dir(home)) if inspect.isfunction(getattr(home, n))]
        public = [n for n in public if getattr(home, n).__module__ == home.__name__ and not n.startswith("_")]
        parts += [
            f"# {prefix if module != 'control' else 'Control flow'}",
            "",
            inspect.cleandoc(home.__doc__ or ""),
            "",
        ]
        parts += function_table("", [(f"{module}.{n}", getattr(home, n), f"{prefix}.{n}") for n in public], types_)
    return "\n".join(parts)


def _home(name: str) -> str:
    function = FREE[name] if name in FREE else getattr(burn.Tensor, name)
    return function.__module__


def tested_types() -> dict[str, tuple[str, ...]]:
    """The element types in the row of each name; none where the tests are not kept as a checkout's are."""
    sys.path.insert(0, str(HERE.parent))
    rows = import_module("tests.api.rows").ROWS
    return {row.key: row.dtypes for row in rows}


KINDS = {"float": "floats", "int": "ints", "uint": "uints", "bool": "bools"}


def kind_types(kind: str) -> list[str]:
    """A kind's element types of 8 bits and more: the smaller ones are stored, not reckoned with."""
    return [n for n, d in DTYPES.items() if d.kind == kind and (d.bits >= 8 or kind == "bool")]


def _types(dtypes: tuple[str, ...]) -> str:
    """Element types, whole kinds by their names."""
    words = []
    for kind, word in KINDS.items():
        every = kind_types(kind)
        some = [n for n in every if n in dtypes]
        words += [word] if some == every else some
    return ", ".join(words)


def function_table(
    heading: str, functions: list[tuple[str, Any, str]], types_: dict[str, tuple[str, ...]]
) -> list[str]:
    lines = [f"## {heading}", ""] if heading else []
    lines += ["| function | element types | |", "|---|---|---|"]
    for key, function, name in functions:
        summary = (inspect.getdoc(function) or "").split("\n\n", 1)[0]
        cells = (f"`{name}{signature_of(function)}`", _types(types_.get(key, ())), " ".join(summary.split()))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return [*lines, ""]


def layer_page() -> str:
    parts = ["# burn.nn", "", inspect.cleandoc(nn.__doc__ or ""), ""]
    for name in nn.__all__:
        member = getattr(nn, name)
        if inspect.ismodule(member):  # nn.init, nn.loss: what they define themselves
            parts += [f"# burn.nn.{name}", "", inspect.cleandoc(member.__doc__ or ""), ""]
            own = [n for n, v in vars(member).items() if getattr(v, "__module__", "") == member.__name__]
            parts += [
                line for n in own if not n.startswith("_") for line in layer_entry(f"{name}.{n}", getattr(member, n))
            ]
        else:
            parts += layer_entry(name, member)
    return "\n".join(parts)


def data_page() -> str:
    """Datasets and loaders, with their methods."""
    parts = ["# burn.data", "", inspect.cleandoc(data.__doc__ or ""), ""]
    for name in data.__all__:
        member = getattr(data, name)
        inherited = dir(data.Dataset) if member is not data.Dataset else ()  # said there
        parts += [*layer_entry(name, member, "data"), *methods(member, inherited), ""]
    return "\n".join(parts)


def train_page() -> str:
    """Steps and learners, then metrics, and the events that observers receive."""
    parts = ["# burn.train", "", inspect.cleandoc(train.__doc__ or ""), ""]
    for name in train.__all__:
        member = getattr(train, name)
        if inspect.isclass(member) or inspect.isroutine(member):
            parts += [*layer_entry(name, member, "train"), *methods(member), ""]
    parts += ["# burn.train.metrics", "", inspect.cleandoc(train.metrics.__doc__ or ""), ""]
    for name in train.metrics.__all__:
        parts += [*layer_entry(name, getattr(train.metrics, name), "metrics"), ""]
    parts += ["# burn.train.events", "", inspect.cleandoc(train.events.__doc__ or ""), ""]
    events = typing.get_args(train.Event)
    return "\n".join([*parts, *(line for event in events for line in layer_entry(event.__name__, event, "events"))])


def generation_page() -> str:
    """Text generation."""
    parts = ["# burn.generation", "", inspect.cleandoc(generation.__doc__ or ""), ""]
    for name in generation.__all__:
        member = getattr(generation, name)
        parts += [*layer_entry(name, member, "generation"), *methods(member), ""]
    return "\n".join(parts)


def methods(member: Any, without: Collection[str] = ()) -> list[str]:
    """The methods that a class defines itself, with their docstrings, except those named in `without`."""
    own = vars(member).items() if inspect.isclass(member) else ()
    return [
        f"- `.{name}{signature_of(function).replace('(self, ', '(').replace('(self)', '()')}`: "
        + " ".join((inspect.getdoc(function) or "").split())
        for name, function in own
        if inspect.isfunction(function) and name not in without and not name.startswith(("_", "with_"))
        if inspect.getdoc(function)
    ]


def layer_entry(name: str, layer: Any, home: str = "nn") -> list[str]:
    try:
        signature = signature_of(layer).replace(" -> None", "")
    except (TypeError, ValueError):
        signature = "(...)"
    return [f"## {name}", "", "```python", f"{home}.{name}{signature}", "```", "", inspect.getdoc(layer) or "", ""]


def pass_page() -> str:
    from burn.cli.opt import describe

    return "\n".join(["# Passes", "", "```", describe(), "```", ""])


def environment_page() -> str:
    """The environment variables."""
    lines = ["# Environment variables", "", "| variable | meaning |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {name} | {about} |" for name, about in VARIABLES.items()), ""])


def vendor_page() -> str:
    """The operators of com.microsoft: what is imported, and what is refused for which reason."""
    from burn.importers.onnx.node import BUILDERS
    from burn.importers.onnx.ops import load_builders
    from burn.importers.onnx.ops.vendor_refused import LIMITS, REFUSED, VALUES

    load_builders()
    lines = [
        "# Operators of ONNX Runtime",
        "",
        "Operators of the domain com.microsoft, which ONNX Runtime's tools write; all that it runs on CPUs are here. An operand,",
        "an attribute or a value that burn does not support is refused by name when the file is imported.",
        "",
        "| operator | | refused |",
        "| --- | --- | --- |",
    ]
    for domain, op in sorted(key for key in BUILDERS if key[0].startswith("com.microsoft")):
        name = op if domain == "com.microsoft" else f"{domain.rpartition('.')[2]}::{op}"
        if (domain, op) in REFUSED:
            lines.append(f"| {name} | refused | {REFUSED[domain, op]} |")
            continue
        own = domain == "com.microsoft"
        limits = [*LIMITS.get(op, ()), *(f"{k} = {v}" for k, v in VALUES.get(op, {}).items())] if own else []
        lines.append(f"| {name} | works | {', '.join(limits)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=HERE / "reference", help="where the pages go")
    main(parser.parse_args().folder)
