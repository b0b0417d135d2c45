# Its types come through JAX, whose sources are not read either.
from typing import Any

def __getattr__(name: str) -> Any: ...
