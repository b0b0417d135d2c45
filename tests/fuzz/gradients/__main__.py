"""`python -m tests.fuzz.gradients`: see `tests.fuzz.runner`. BURN_FUZZ_DEVICE=xla runs the programs on that device."""

import sys

from tests.fuzz.gradients.case import case
from tests.fuzz.runner import main

sys.exit(main(case, preload=("torch", "burn")))
