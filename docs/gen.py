"""Writes the reference of public names, ops, operators and commands from the code itself.

    python docs/gen.py [FOLDER]        # docs/reference by default

Pages: the names of docs/surface.py by module, tensor functions by kind, layers by file, ops by family; then the tables of
docs/tables.py. All content comes from the code: the element types of a function are those of its tests (tests/api/rows.py).
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from burn import nn
from burn.dialect import FAMILIES
from burn.dialect.op import REGISTRY, Op
from burn.tensors.functions import NAMES

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import tables  # noqa: E402
from entries import entry, markdown, module  # noqa: E402
from surface import MODULES, Entry, aliases, entries, family  # noqa: E402

TENSOR_FAMILIES = {
    "creation": "Creation", "promotion": "From other libraries", "math": "Functions of elements",
    "complexes": "Complex numbers",
    "logic": "Comparison, logic and bits", "activations": "Activations", "conversions": "Conversion", "shapes": "Shapes",
    "manipulation": "Rearranging elements", "concatenation": "Concatenation and selection", "reductions": "Reductions",
    "statistics": "Statistics", "contractions": "Matmuls and contractions", "sorting": "Sorting and searching",
    "indexing": "Indexing", "at": "Updates", "attending": "Attention", "special": "Special functions",
    "signals": "Samples, interpolation, distances", "grids": "Sampling grids",
}  # fmt: skip
"""Modules of burn.tensors, and the headings of their pages."""

TITLES = {
    "run": ("Load, compile, export", None),
    "run-torch": ("Compiled PyTorch modules", None),
    "run-jax": ("JAX functions", None),
    "tensor": ("Tensor", "burn.tensors.tensor"),
    "control": ("Control flow", "burn.tensors.control"),
    "gradients": ("Gradients", "burn.tensors.gradients"),
    "transforms": ("Transforms", "burn.transforms"),
    "errors": ("Errors", "burn.errors"),
    **{page: (path, path) for path, page in MODULES.items()},
}
"""Pages that are not made of a family: title, and the module whose docstring opens them."""

TABLES: dict[str, Callable[[], str]] = {
    "operators-onnx": tables.onnx_page,
    "operators-onnx-runtime": tables.vendor_page,
    "operators-torch": tables.torch_page,
    "derivatives": tables.derivative_page,
    "batching": tables.batching_page,
    "array-api-standard": tables.array_api_page,
    "passes": tables.pass_page,
    "commands": tables.command_page,
    "gallery": tables.gallery_page,
    "environment": tables.environment_page,
}

SECTIONS = {
    "Functions and tensors": (
        "run",
        "run-torch",
        "run-jax",
        "tensor",
        "tensor-*",
        "control",
        "gradients",
        "transforms",
    ),
    "Families of functions": ("linalg", "fft", "random", "array-api", "array-api-*"),
    "Models and training": (
        "nn",
        "nn-*",
        "optim",
        "train",
        "train-*",
        "distributed",
        "data",
        "generation",
        "quantization",
    ),
    "Operators of one's own": ("custom",),
    "Examples": ("gallery",),
    "Tools": ("debug", "errors", "commands", "environment"),
    "Ops and operators": ("operators-*", "ops", "ops-*", "derivatives", "batching", "passes"),
}
"""Sections of the index, and their pages in order; `x-*` is every page of that beginning."""


def pages() -> dict[str, str]:
    """The name of each page and its text."""
    by_page: dict[str, list[Entry]] = defaultdict(list)
    for public in entries():
        by_page[public.page].append(public)
    types_ = tested_types()
    written = {}
    for page, listed in by_page.items():
        if page.startswith("ops-"):
            continue
        if page.startswith("tensor-"):
            head = [f"# {TENSOR_FAMILIES[page.removeprefix('tensor-')]}", ""]
        elif page.startswith("nn-") and page not in TITLES:
            head = layer_head(page)
        else:
            title, home = TITLES[page]
            head = [f"# {title}", "", *(module(import_module(home)) if home else [])]
        written[page] = "\n".join([*head, *overview(listed), *(x for e in listed for x in entry(e, note(e, types_)))])
    written["nn"] = layer_index(by_page)
    written["ops"] = op_index()
    written |= {f"ops-{name.replace('.', '-')}": text for name in FAMILIES if (text := op_page(name, by_page))}
    written |= {page: text for page, make in TABLES.items() if (text := make())}
    written["tensor"] += tensor_note()
    written["errors"] += alias_table()
    return written


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    written = pages()
    for stale in {path.stem for path in folder.glob("*.md")} - set(written) - {"index"}:
        (folder / f"{stale}.md").unlink()
    for name, text in written.items():
        (folder / f"{name}.md").write_text(text)
    (folder / "index.md").write_text(index(written))
    print(f"{len(written) + 1} pages in {folder}")


def index(written: dict[str, str]) -> str:
    lines = ["# Reference", "", "Every public name, from its docstring. The search finds names and their parts.", ""]
    for section, patterns in SECTIONS.items():
        lines += [f"## {section}", ""]
        found = [page for pattern in patterns for page in _matching(pattern, written)]
        lines += [f"- [{written[page].partition(chr(10))[0].removeprefix('# ')}]({page}.md)" for page in found]
        lines += [""]
    return "\n".join(lines)


def _matching(pattern: str, written: dict[str, str]) -> list[str]:
    if not pattern.endswith("*"):
        return [pattern]
    return [page for page in sorted(written) if page.startswith(pattern[:-1])]


def overview(listed: list[Entry]) -> list[str]:
    """A table of a page's names, if it has many: a link and the first sentence of each."""
    if len(listed) < 4:
        return []
    rows = [(f"{{py:obj}}`{e.name}`", first_sentence(e.documentation)) for e in listed]
    return [*tables.table(("name", ""), rows), ""]


LONG = 110
"""Characters of a sentence in a table."""


def first_sentence(text: str) -> str:
    """For tables: up to the first period, of a long one up to the first colon."""
    paragraph = " ".join(text.split("\n\n", 1)[0].split())
    end = paragraph.find(". ")
    if (end if end >= 0 else len(paragraph)) > LONG and 0 < (colon := paragraph.find(": ")) < LONG:
        return " ".join(markdown(f"{paragraph[:colon]}."))
    return " ".join(markdown(paragraph if end < 0 else paragraph[: end + 1]))


def note(public: Entry, types_: dict[str, tuple[str, ...]]) -> str:
    """The element types that a tensor function is tested with."""
    key = public.name.removeprefix("burn.")
    words = tables.type_names(types_.get(key, ()))
    return f"Element types: {words}." if words else ""


def tested_types() -> dict[str, tuple[str, ...]]:
    """The element types in the row of each name in the tests."""
    return {row.key: row.dtypes for row in import_module("tests.api.rows").ROWS}


def tensor_note() -> str:
    kinds = "; ".join(f"{word}: {', '.join(tables.kind_types(kind))}" for kind, word in tables.KINDS.items())
    links = [f"- [{title}](tensor-{page}.md)" for page, title in TENSOR_FAMILIES.items()]
    text = f"""
## Functions and methods

There are {len(NAMES)} functions. Most are methods as well: `burn.sum(x, 0)` is `x.sum(0)`. Each states the element types that
it is tested with against numpy. {kinds}.
"""
    return "\n".join([text, *links, ""])


def alias_table() -> str:
    rows = [(f"`{name}`", f"{{py:obj}}`{home}`") for name, home in aliases().items() if "errors" in home]
    return "\n".join(["", "## Names in `burn`", "", *tables.table(("name", "class"), rows)])


def layer_head(page: str) -> list[str]:
    """The title of a page of layers, and the docstrings of the files that define them."""
    if page == "nn-loss":
        return ["# Losses", "", *module(nn.loss)]
    home = import_module(f"burn.nn.{page.removeprefix('nn-')}")
    return [f"# {page.removeprefix('nn-').capitalize()}", "", *module(home)]


def layer_index(by_page: dict[str, list[Entry]]) -> str:
    lines = ["# burn.nn", "", *module(nn)]
    for page in sorted(p for p in by_page if p.startswith("nn-")):
        names = ", ".join(f"{{py:obj}}`{e.name.rpartition('.')[2]} <{e.name}>`" for e in by_page[page])
        lines += [f"**[{layer_head(page)[0][2:] if page != 'nn-init' else 'Initialisers'}]({page}.md)**: {names}", ""]
    return "\n".join(lines)


def op_index() -> str:
    """All ops with their kinds, as a table."""
    rows = []
    for name, cls in sorted(REGISTRY.items()):
        kind = "primitive" if cls.decompose is None else "composite"
        rows.append((f"[`burn.{name}`](ops-{family(name)}.md)", kind, tables.summary(cls)))
    head = "A composite has a decomposition into other ops; kernels implement primitives."
    return "\n".join(["# Ops of the dialect", "", head, "", *tables.table(("op", "kind", ""), _plain(rows))])


def _plain(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [(name, kind, " ".join(markdown(text))) for name, kind, text in rows]


def op_page(name: str, by_page: dict[str, list[Entry]]) -> str:
    """The ops that one module of the dialect defines: those with a function, then the others."""
    home = import_module(f"burn.dialect.{name}")
    classes = [cls for cls in REGISTRY.values() if cls.__module__ == home.__name__]
    if not classes:
        return ""
    functions = {e.name.rpartition(".")[2]: e for e in by_page.get(f"ops-{name.replace('.', '-')}", [])}
    title = name.rpartition(".")[2].replace("_", " ").capitalize()
    lines = [f"# Ops: {title.lower()}", "", *module(home)]
    rest = []
    for cls in classes:
        public = functions.get(cls.OP_NAME) or functions.get(f"{cls.OP_NAME}_")
        if public is None:
            rest += [f"### {cls.OP_NAME}", "", *markdown(inspect.getdoc(cls) or ""), "", op_note(cls), ""]
        else:
            lines += entry(public, op_note(cls))
    return "\n".join([*lines, *(["## Ops without a function", ""] if rest else []), *rest])


def op_note(cls: type[Op]) -> str:
    kind = "primitive" if cls.decompose is None else "composite: it has a decomposition into other ops"
    return f"`burn.{cls.OP_NAME}`, {kind}. Derivative: {' '.join(markdown(tables.derivative_of(cls.OP_NAME)))}."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=HERE / "reference", help="where the pages go")
    main(parser.parse_args().folder)
