"""Writes type stubs of functions that are made from tables: `burn.ops` from the dialect, `burn.<name>` from `Tensor`'s methods.

    python docs/stubs.py            # burn/ops.pyi, burn/tensors/functions.pyi and burn/nn/function.pyi
    python docs/stubs.py FOLDER     # the same files below another folder

Type checkers and editors read the stubs. tests/docs/test_stubs.py compares them with the tables.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from burn import ops
from burn.dialect.mlir import context
from burn.dialect.op import REGISTRY, Op
from burn.nn.activation import FUNCTIONS
from burn.tensors import Tensor, functions

HEAD = "# Written by docs/stubs.py.\n\n"
LIKE = "Operand | Sequence[Any]"
"""Types that `lift` takes as an operand."""


def main(root: Path) -> None:
    for name, text in files().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def files() -> dict[str, str]:
    """Path below the repository -> text."""
    return {
        "burn/ops.pyi": ops_stub(),
        "burn/tensors/functions.pyi": functions_stub(),
        "burn/nn/function.pyi": layers_stub(),
    }


def ops_stub() -> str:
    """Every op of the dialect as a function."""
    context()
    imports = (
        "from collections.abc import Sequence\nfrom typing import Any\n\n"
        "from burn.tensors import Size, Tensor\nfrom burn.tensors.lifting import Operand\n\n"
        "STRUCTURAL: frozenset[str]\nNUMBERS_LIKE: dict[str, tuple[str, ...]]\nELEMENTS: dict[str, tuple[str, ...]]\n\n"
        "def names() -> list[str]: ...\ndef element(value: float, dtype: str) -> float: ...\n"
    )
    return HEAD + imports + "".join(_op(name, _class(name)) for name in ops.names())


def _class(name: str) -> type[Op]:
    return REGISTRY[name] if name in REGISTRY else REGISTRY[name.removesuffix("_")]


def _op(name: str, cls: type[Op]) -> str:
    parameters: list[str] = []
    keyword_only = False
    for parameter in inspect.signature(getattr(ops, name)).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            parameters.append("*")
            keyword_only = True
        parameters.append(_parameter(parameter.name, _op_type(str(parameter.annotation), parameter.default), parameter))
    several = "list" in str(inspect.signature(cls.infer).return_annotation)
    return _definition(name, parameters, "tuple[Tensor, ...]" if several else "Tensor")


def _op_type(annotation: str, default: object) -> str:
    text = annotation.replace("int | burn.dialect.dims.expression.Expr", "Size")
    text = text.replace("Sequence[Tensor]", f"Sequence[{LIKE}]")
    text = re.sub(r"^Tensor\b", LIKE, text)
    text = re.sub(r"^tuple\[(.*), \.\.\.\]$", r"Sequence[\1]", text)
    return f"{text} | None" if default is None and "None" not in text else text


def functions_stub() -> str:
    """The functions of `burn` that are methods of `Tensor`, and the free ones."""
    used = {"Operand": "burn.tensors.lifting", "Sequence": "collections.abc", "Any": "typing"}  # name -> its module
    body = ""
    for name in functions.NAMES:
        original = functions.FREE.get(name) or getattr(Tensor, name)
        signature = inspect.signature(original)
        names_of_kinds = list(signature.parameters.values())
        parameters: list[str] = []
        if name not in functions.FREE:
            parameters += [f"x: {LIKE}", "/"]
            names_of_kinds = names_of_kinds[1:]
        seen_star = False
        for parameter in names_of_kinds:
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not seen_star:
                parameters.append("*")
            seen_star = seen_star or parameter.kind in (
                inspect.Parameter.VAR_POSITIONAL,
                inspect.Parameter.KEYWORD_ONLY,
            )
            parameters.append(_parameter(parameter.name, _text(parameter.annotation), parameter))
        result = _text(signature.return_annotation)
        for annotation in (*(p.annotation for p in names_of_kinds), signature.return_annotation):
            used |= _imported(_text(annotation), original)
        body += _definition(name, parameters, result)
    by_module: dict[str, set[str]] = {"burn.tensors": {"Tensor"}}
    for name, module in used.items():
        by_module.setdefault("burn.tensors" if name == "Tensor" else module, set()).add(name)
    lines = [f"from {module} import {', '.join(sorted(names))}\n" for module, names in sorted(by_module.items())]
    tables = "from collections.abc import Callable\n\n" if "Callable" not in used else ""
    listed = "\n".join(f'    "{name}",' for name in functions.NAMES)
    return (
        f"{HEAD}{tables}{''.join(lines)}\n__all__ = [\n{listed}\n]\n\n"
        f"NO_FUNCTIONS: frozenset[str]\nFREE: dict[str, Callable[..., object]]\nNAMES: tuple[str, ...]\n\n"
        f"def methods() -> list[str]: ...\n{body}"
    )


def layers_stub() -> str:
    """The layers that are made from `activation.FUNCTIONS`."""
    body, used = "", {"Tensor": "burn.tensors", "Layer": "burn.nn.module", "Any": "typing"}
    for name, function in FUNCTIONS.items():
        _, *parameters = inspect.signature(function).parameters.values()
        for parameter in parameters:
            used |= _imported(_text(parameter.annotation), function)
        listed = ["self", *(_parameter(p.name, _text(p.annotation), p) for p in parameters)]
        body += f"class {name}(Function):\n    {_definition('__init__', listed, 'None')}\n"
    lines = [f"from {module} import {name}\n" for name, module in sorted(used.items())]
    base = "class Function(Layer):\n    options: dict[str, Any]\n    def forward(self, x: Tensor) -> Tensor: ...\n\n"
    names = "\n".join(f'    "{name}",' for name in FUNCTIONS)
    return f"{HEAD}{''.join(lines)}\n__all__ = [\n{names}\n]\n\n{base}{body}"


def _imported(annotation: str, function: Callable[..., Any]) -> Iterator[tuple[str, str]] | dict[str, str]:
    """Names in an annotation that a stub must import, and the modules that define them."""
    found: dict[str, str] = {}
    scope = inspect.unwrap(function).__globals__
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if (
            isinstance(node, ast.Name)
            and node.id not in dir(__builtins__)
            and not hasattr(__import__("builtins"), node.id)
        ):
            value = scope.get(node.id)
            home = getattr(value, "__module__", None) if inspect.isclass(value) else None
            if isinstance(value, ModuleType):
                raise ValueError(f"{function.__qualname__}: the annotation {annotation} names a module")
            found[node.id] = home if home and not home.startswith("typing") else _home(node.id, function.__module__)
    return found


def _home(name: str, module: str) -> str:
    """The module that a name of an annotation comes from: an import of the module, or the module itself."""
    tree = ast.parse(Path(sys.modules[module].__file__ or "").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return str(node.module)
    return module


def _text(annotation: object) -> str:
    return "object" if annotation is inspect.Parameter.empty else str(annotation)


def _parameter(name: str, kind: str, parameter: inspect.Parameter) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is inspect.Parameter.empty else " = ..."
    return f"{star}{name}: {kind}{default}"


def _definition(name: str, parameters: list[str], result: str) -> str:
    return f"def {name}({', '.join(parameters)}) -> {result}: ...\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])
