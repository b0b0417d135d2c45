"""Hooks from tensors to higher layers: evaluate recorded ops, compile a function, find a function by its numpy name. Enter at
`evaluate`, `compile`, `family`.

Tensors are below the compiler, whose stages use tensors. The package's root (burn/__init__.py) sets the implementations, and the
first use imports them: a program that only runs a cached model never pays for the import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burn.dialect.deferred import Deferred

_answers: dict[str, Callable[[], Callable[..., Any]]] = {}


def provide(**answers: Callable[[], Callable[..., Any]]) -> None:
    """Says who answers; each is called for the function when that is first needed."""
    _answers.update(answers)


def family(name: str) -> Any:
    """burn's functions of a family, such as `burn.linalg`."""
    return _answers["family"]()(name)


def evaluate(values: Iterable[Deferred]) -> None:
    """Computes recorded values, in one program. Raises CompileError and RunError."""
    _answers["evaluate"]()(values)


def compile(function: Callable[..., Any], example_inputs: Any) -> Any:
    """`burn.compile`: an executable of a function of tensors."""
    return _answers["compile"]()(function, example_inputs)
