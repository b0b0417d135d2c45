from collections.abc import Callable
from typing import Any

# Imports nothing of burn: in an import cycle, mypy reads the type of a module's `__getattr__` before it has analysed it, and ends
# with an internal error.
def __getattr__(name: str) -> Callable[..., Any]: ...
