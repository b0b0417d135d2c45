"""`python -m tests.fuzz.debug`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.debug.case import case
from tests.fuzz.runner import main

sys.exit(main(case))
