"""`python -m tests.fuzz.calls`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.calls.case import case
from tests.fuzz.runner import main

sys.exit(main(case))
