"""python -m tests.array_api --count 1000: drawn calls of every function of the standard."""

from __future__ import annotations

import sys

from tests.array_api.case import case
from tests.fuzz.runner import main

if __name__ == "__main__":
    sys.exit(main(case))
