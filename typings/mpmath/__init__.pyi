# mpmath attaches its functions to a context while it is imported, where a checker does not see them.
from typing import Any

def __getattr__(name: str) -> Any: ...
