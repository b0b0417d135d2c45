"""Several programs as one object, in which functions with the same text are one: `together`. Autotuning compiles variants
of a program, most of whose kernels are the same.

Entry functions, tables and whatever else refers to functions of its program get names of their own. Kernels refer to none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_DEFINED = re.compile(r"llvm\.(?:func|mlir\.global)\b[^@\n]*@(\w+)")
_NAME = re.compile(r"@(\w+)")


def together(programs: Sequence[Sequence[str]]) -> list[str]:
    """The functions of all programs. A name of one that stays apart has the number of its program behind it: see `named`."""
    functions: dict[str, None] = {}
    shared: dict[str, int] = {}
    for number, program in enumerate(programs):
        own = [(text, _DEFINED.findall(text)) for text in program if _is_definition(text)]
        defined = {name for _, names in own for name in names}
        renamed: dict[str, str] = {}
        for text, names in own:
            if _names(text) & defined <= set(names):
                masked = _with_names(text, {name: str(index) for index, name in enumerate(names)})
                first = shared.setdefault(masked, len(shared))
                renamed |= {name: f"shared{first}_{index}" for index, name in enumerate(names)}
        renamed = {name: named(name, number) for name in defined} | renamed
        functions |= dict.fromkeys(_with_names(text, renamed) for text in program)
    return list(functions)


def named(name: str, number: int) -> str:
    """The name of a program's entry function among several programs."""
    return f"{name}_{number}"


def _is_definition(text: str) -> bool:
    """False for the declaration of a function that another object defines."""
    return "{" in text


def _names(text: str) -> set[str]:
    return set(_NAME.findall(text))


def _with_names(text: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda found: "@" + names.get(found[1], found[1]), text)
