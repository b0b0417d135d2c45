# Its sources take pyright minutes to read, and parts that burn uses are not declared there.
from typing import Any

def __getattr__(name: str) -> Any: ...
