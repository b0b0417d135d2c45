"""Writes the reference of ops, layers and commands from the code itself.

    python docs/gen.py [FOLDER]        # docs/reference by default

One page for each family of ops, one for `burn.nn`, one for the passes. Nothing here is written by hand, so nothing can be
out of step.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

from burn import nn, ops
from burn.dialect import FAMILIES
from burn.dialect.mlir import context
from burn.dialect.op import REGISTRY, Op

HERE = Path(__file__).parent


def main(folder: Path) -> None:
    context()
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"ops-{family}.md": op_page(family) for family in FAMILIES}
    pages["nn.md"] = layer_page()
    pages["passes.md"] = pass_page()
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
    kind = "primitive" if cls.decompose is None else "composite: it has a decomposition into other ops"
    return [*lines, inspect.cleandoc(cls.__doc__ or ""), "", f"`burn.{name}`, {kind}.", ""]


def signature_of(function: object) -> str:
    """Without the quotes that annotations come in."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))  # type: ignore[arg-type]


def layer_page() -> str:
    parts = ["# burn.nn", "", inspect.cleandoc(nn.__doc__ or ""), ""]
    for name in nn.__all__:
        cls = getattr(nn, name)
        try:
            signature = signature_of(cls).replace(" -> None", "")
        except ValueError:
            signature = "(...)"
        doc = inspect.getdoc(cls) or ""
        parts += [f"## {name}", "", "```python", f"nn.{name}{signature}", "```", "", doc, ""]
    return "\n".join(parts)


def pass_page() -> str:
    from burn.cli.opt import describe

    return "\n".join(["# Passes", "", "```", describe(), "```", ""])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "reference")
