"""Imports point one way: the order of stages that ARCHITECTURE.md draws is the order in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "burn").rglob("*.py"))


def stages() -> dict[str, int]:
    """Every stage and its height, as drawn: a line holds those of one height, the lowest line comes first."""
    (drawn,) = re.findall(r"```stages\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL)
    lines = [re.split(r"\s{2,}", line.strip())[0] for line in reversed(drawn.strip().splitlines())]
    return {name.strip(): height for height, line in enumerate(lines) for name in line.split(",")}


def stage_of(module: str) -> str:
    """The stage that a module belongs to: the folder or file under burn/, or burn itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "burn"


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """The modules of burn that a file imports when it runs, late imports among them, with their lines."""

    def visit(node: ast.AST) -> Iterator[tuple[int, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):  # holds no import
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                yield from ((child.lineno, alias.name) for alias in child.names if alias.name.split(".")[0] == "burn")
            elif isinstance(child, ast.ImportFrom) and child.module == "burn":
                yield from ((child.lineno, f"burn.{alias.name}") for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and (child.module or "").startswith("burn."):
                yield child.lineno, str(child.module)
            else:
                yield from visit(child)

    return visit(ast.parse(path.read_text()))


def test_every_stage_is_drawn() -> None:
    found = {stage_of(".".join(("burn", *path.relative_to(ROOT / "burn").with_suffix("").parts))) for path in FILES}
    found = {"burn" if name == "__init__" else name for name in found}
    assert found == set(stages())


def test_imports_point_down() -> None:
    height, upwards = stages(), list[str]()
    for path in FILES:
        mine = path.relative_to(ROOT / "burn").with_suffix("").parts[0]
        mine = "burn" if mine == "__init__" else mine
        upwards += [
            f"{path.relative_to(ROOT)}, line {line}: {module}"
            for line, module in imports(path)
            if stage_of(module) != mine and height.get(stage_of(module), -1) >= height[mine]
        ]
    assert not upwards, "\n".join(["imports of what stands beside or above:", *upwards])
