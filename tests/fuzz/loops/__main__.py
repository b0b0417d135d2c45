"""`python -m tests.fuzz.loops`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.loops.case import case
from tests.fuzz.runner import main

sys.exit(main(case))
