# Thousands of modules that say little of their types: to read them takes a third of all that pyright reads.
from typing import Any

def __getattr__(name: str) -> Any: ...
