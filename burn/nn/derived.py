"""Weights that a module computes from other parameters: `module.weight` is then the result of a `Derived` module.

Names are those of torch.nn.utils.parametrize: `conv.parametrizations.weight.original0`. `nn.adapt` makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from burn.tensors import Tensor

if TYPE_CHECKING:
    from burn.nn.module import Module

NAME = "parametrizations"
"""The attribute of a module with derived weights."""


def holder_of(module: Any) -> Any:
    """The `Parametrizations` of a module, or None."""
    return vars(module).get(NAME)


@contextmanager
def computed(holder: Any) -> Iterator[None]:
    """Inside, each derived weight is one tensor, computed once: what a call of the module reads."""
    if holder is None or vars(holder).get("_now") is not None:
        yield
        return
    vars(holder)["_now"] = {name: module.advanced() for name, module in holder.children()}
    try:
        yield
    finally:
        vars(holder)["_now"] = None


def weight_of(holder: Any, name: str) -> Tensor | None:
    """A derived weight; None if the module has none of this name."""
    if holder is None:
        return None
    now = vars(holder).get("_now")
    if now is not None and name in now:
        return now[name]
    found: Module | None = dict(holder.children()).get(name)
    return None if found is None else found()
