"""`python -m tests.fuzz.gradients`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.gradients.case import case
from tests.fuzz.runner import main

sys.exit(main(case, preload=("torch", "burn")))
