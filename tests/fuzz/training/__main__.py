"""`python -m tests.fuzz.training`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.runner import main
from tests.fuzz.training.cases import case

sys.exit(main(case, preload=("torch", "burn")))
