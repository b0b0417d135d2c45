"""What tensors ask of what stands above them: to compute what was recorded, to compile a function, to find a function that is
called by numpy's name. Enter at `evaluate`, `compile`, `family`.

Tensors stand below the compiler, which is made of stages that know tensors. Who answers is said once, by the package's root
(burn/__init__.py), and imported at the first question: a program that only runs a cached model never pays for it.
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
