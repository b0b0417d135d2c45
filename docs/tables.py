"""Tables of the reference that are not about one name: operators of model formats, functions, derivatives, passes, commands."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from entries import markdown, module

from burn import ops
from burn.dialect.adjoint import rules
from burn.dialect.batching import walk
from burn.dialect.op import REGISTRY
from burn.dialect.types import DTYPES
from burn.variables import VARIABLES


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table; cells are Markdown without line ends."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines] + [""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


DERIVATIVES = {
    "rule": "a rule of its own",
    "composite": "that of its decomposition",
    "control": "its regions run again in the backward pass",
    "zero": "zero",
    "discrete": "none: it has no float operands",
}


def derivative_of(name: str) -> str:
    kind = rules.kind(name)
    if kind == "rule" and name in rules.NONE:
        return f"{DERIVATIVES[kind]}, but {rules.NONE[name]}"
    return f"none: {rules.NONE[name]}" if kind == "none" else DERIVATIVES[kind]


def derivative_page() -> str:
    """How every op is differentiated."""
    names = [name for name in sorted(REGISTRY) if name not in ops.STRUCTURAL - {"if", "loop"}]
    rows = [(f"`{name}`", derivative_of(name)) for name in names]
    head = ["# Derivatives", "", *module(import_module("burn.dialect.adjoint"))]
    return "\n".join([*head, *table(("op", "derivative"), rows)])


BATCHING = {"rule": "rule", "composite": "through its decomposition", "shared": "all examples share it"}


def batching_page() -> str:
    """How burn.vmap maps every op."""
    names = [name for name in sorted(REGISTRY) if name not in ops.STRUCTURAL - {"if", "loop"}]
    kinds = [(name, walk.kind(name)) for name in names]
    rows = [(f"`{name}`", BATCHING.get(kind, f"none: {REGISTRY[name].BATCHING}")) for name, kind in kinds]
    head = ["# Batching", "", *module(import_module("burn.dialect.batching"))]
    return "\n".join([*head, *table(("op", "under `burn.vmap`"), rows)])


def array_api_page() -> str:
    """State of each function of the array API standard, from the tests that draw calls of it."""
    from tests.array_api.case import NAMES, NOT_TRACED, UNSUPPORTED

    def row(name: str) -> tuple[str, str, str]:
        if name in UNSUPPORTED:
            return f"`{name}`", f"not for {UNSUPPORTED[name]}", ""
        return f"`{name}`", "agrees with array-api-strict", "no" if name in NOT_TRACED else "yes"

    missing = sum(name in UNSUPPORTED for name in NAMES)
    head = [
        "# Array API standard by function", "",
        f"{len(NAMES) - missing} of {len(NAMES)} functions of version 2025.12 agree with array-api-strict on drawn calls.", "",
    ]  # fmt: skip
    return "\n".join([*head, *table(("function", "state", "tested in compiled functions"), map(row, sorted(NAMES)))])


KINDS = {"float": "floats", "int": "ints", "uint": "uints", "bool": "bools"}


def kind_types(kind: str) -> list[str]:
    """A kind's element types that functions compute with: those of 8 bits and more."""
    return [n for n, d in DTYPES.items() if d.kind == kind and (d.bits >= 8 or kind == "bool")]


def type_names(dtypes: tuple[str, ...]) -> str:
    """Element types, whole kinds by their names."""
    words = []
    for kind, word in KINDS.items():
        every = kind_types(kind)
        some = [n for n in every if n in dtypes]
        words += [word] if some == every else some
    return ", ".join(words)


def pass_page() -> str:
    from burn.cli.opt import describe

    head = "`burn-opt --passes` runs them by these names; [Look at programs](../guide/burn-opt.md) has examples."
    return "\n".join(["# Passes", "", head, "", "```text", describe(), "```", ""])


def environment_page() -> str:
    """The environment variables."""
    rows = [(f"`{name}`", about) for name, about in VARIABLES.items()]
    return "\n".join(["# Environment variables", "", *table(("variable", "meaning"), rows)])


def onnx_page() -> str:
    """The standard's operators: versions, and the domains."""
    import onnx.defs

    from burn.importers.onnx.node import BUILDERS
    from burn.importers.onnx.ops import load_builders

    load_builders()
    versions: dict[tuple[str, str], set[int]] = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        versions[schema.domain, schema.name].add(schema.since_version)
    lines = ["# ONNX operators", ""]
    for domain, title in (("", "ai.onnx"), ("ai.onnx.ml", "ai.onnx.ml"), ("ai.onnx.preview.training", "Training")):
        names = sorted(name for d, name in versions if d == domain)
        works = [name for name in names if (domain, name) in BUILDERS]
        lines += [f"## {title}", "", f"burn imports {len(works)} of {len(names)} operators, in all their versions.", ""]
        rows = [
            (name, ", ".join(map(str, sorted(versions[domain, name]))), "yes" if name in works else "no")
            for name in names
        ]
        lines += table(("operator", "versions (opset)", "imported"), rows)
    return "\n".join(lines)


def vendor_page() -> str:
    """The operators of com.microsoft: what is imported, and what is refused for which reason."""
    from burn.importers.onnx.node import BUILDERS
    from burn.importers.onnx.ops import load_builders
    from burn.importers.onnx.ops.vendor_refused import LIMITS, REFUSED, VALUES

    load_builders()
    head = [
        "# Operators of ONNX Runtime",
        "",
        "Operators of the domains com.microsoft and com.microsoft.nchwc, which ONNX Runtime's tools write; all that it runs on",
        "CPUs are here. An operand, an attribute or a value that burn does not support is refused by name at import.",
        "",
    ]
    rows = []
    for domain, op in sorted(key for key in BUILDERS if key[0].startswith("com.microsoft")):
        name = op if domain == "com.microsoft" else f"{domain.rpartition('.')[2]}::{op}"
        if (domain, op) in REFUSED:
            rows.append((name, "refused", REFUSED[domain, op]))
            continue
        own = domain == "com.microsoft"
        limits = [*LIMITS.get(op, ()), *(f"{k} = {v}" for k, v in VALUES.get(op, {}).items())] if own else []
        rows.append((name, "works", ", ".join(limits)))
    return "\n".join([*head, *table(("operator", "", "refused"), rows)])


def torch_page() -> str:
    """ATen operators with a builder, and those that are refused with a reason. "" without PyTorch."""
    try:
        from burn.importers.torch.node import BUILDERS
        from burn.importers.torch.ops import load_builders
        from burn.importers.torch.refusals import REASONS
    except ImportError:
        return ""
    load_builders()
    overloads: dict[str, list[str]] = defaultdict(list)
    for key in BUILDERS:
        name, _, overload = key.rpartition(".") if key.count(".") > 1 else (key, "", "")
        overloads[name].append(overload)
    head = [
        "# PyTorch operators",
        "",
        "Operators that the importer builds itself. PyTorch decomposes all others, and the import fails only if a part of the",
        "decomposition has no builder. One error lists all unsupported operators of a module.",
        "",
    ]
    rows = [(f"`{name}`", ", ".join(sorted(filter(None, overloads[name])))) for name in sorted(overloads)]
    refused = [(f"`aten.{name}`", reason) for name, reason in sorted(REASONS.items())]
    built = table(("operator", "overloads"), rows)
    return "\n".join([*head, *built, "## Refused", "", *table(("operator", "reason"), refused)])


def command_page() -> str:
    """The commands with their options, as `--help` prints them."""
    from burn.cli.main import COMMANDS

    lines = ["# Commands", "", "Every command is also a program: `burn run` is `burn-run`. All take `--help`.", ""]
    for name, (path, about) in COMMANDS.items():
        command = import_module(path).main
        lines += [f"## burn {name}", "", about, "", "```text", *_help(command, f"burn {name}"), "```", ""]
    return "\n".join(lines)


def _help(command: click.Command, name: str) -> list[str]:
    texts = [command.get_help(click.Context(command, info_name=name, max_content_width=100, terminal_width=100))]
    for part, inner in getattr(command, "commands", {}).items():
        context = click.Context(inner, info_name=f"{name} {part}", max_content_width=100, terminal_width=100)
        texts.append(inner.get_help(context))
    return "\n\n".join(texts).splitlines()


EXAMPLES = Path(__file__).parents[1] / "examples"


def gallery_page() -> str:
    """The programs in examples/ that tests run (tests/train/test_examples.py, tests/release), with their docstrings and code."""
    lines = ["# Gallery", "", "Complete programs from the folder `examples`. The tests run all of them.", ""]
    for path in (EXAMPLES / "digits" / "demo.py", *sorted((EXAMPLES / "training").glob("*.py"))):
        source = path.read_text()
        first, _, rest = (ast.get_docstring(ast.parse(source)) or path.stem).partition("\n")
        title = path.relative_to(EXAMPLES).with_suffix("").as_posix().replace("_", " ")
        lines += [f"## {title}", "", *markdown(first), "", *markdown(rest.strip()), ""]
        code = source.split('"""', 2)[2].strip() if source.startswith('"""') else source
        lines += ["````python", code, "````", ""]
    return "\n".join(lines)


def summary(value: Any) -> str:
    """The first sentence of a docstring, for tables."""
    first = (inspect.getdoc(value) or "").split("\n\n", 1)[0]
    return " ".join(first.split())
