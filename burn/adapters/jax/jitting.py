"""`burn.jit` of a JAX function: compiled at its first call with each signature."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import tree_util

from burn.adapters.jax.calling import CompiledJax, compile_function
from burn.adapters.jax.function import JaxFunction
from burn.errors import TypeMismatch
from burn.importers.jax.tracing import name_of
from burn.options import Options
from burn.runtime.executable import Executable
from burn.tensors.base import Base

KEPT = 256
"""Programs that a jitted function keeps."""


class JaxJit:
    """A JAX function that is compiled at its first call with each signature: types and shapes of arrays, the structure of the
    arguments, and everything else in them by value. Python numbers are scalars, as for `jax.jit`."""

    def __init__(
        self,
        function: JaxFunction,
        dynamic: Mapping[Any, Any] | None = None,
        donate: Sequence[int | str] = (),
        options: Options | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function, self._dynamic, self._donate, self._options = function, dynamic, donate, options
        self.programs: OrderedDict[Any, CompiledJax] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def executable(self) -> Executable:
        """The executable compiled last. Raises TypeMismatch before the first call."""
        if not self.programs:
            raise TypeMismatch("nothing is compiled yet", [f"{name_of(self._function)} was never called"])
        return next(reversed(self.programs.values())).executable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree_util.tree_flatten((args, kwargs), is_leaf=lambda v: isinstance(v, Base))
        if any(isinstance(leaf, Base) and leaf.is_traced for leaf in leaves):
            return self._function(*args, **kwargs)  # the call becomes part of the outer trace
        key = (structure, tuple(map(_signature, leaves)), jax.config.read("jax_enable_x64"))
        program = self.programs.get(key)
        if program is None:
            with self._lock:
                program = self.programs.get(key)
                if program is None:
                    program = compile_function(self._function, args, kwargs, self._dynamic, self._options, self._donate)
                    self.programs[key] = program
                    while len(self.programs) > KEPT:
                        self.programs.popitem(last=False)
        return program(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<burn.jit of {name_of(self._function)}, {len(self.programs)} programs>"


def _signature(leaf: Any) -> Any:
    if isinstance(leaf, (Base, np.ndarray, np.generic, jax.Array)):
        return tuple(leaf.shape), str(leaf.dtype)
    return type(leaf) if isinstance(leaf, (int, float, complex)) and not isinstance(leaf, bool) else leaf
