"""`python -m tests.fuzz.gradients`: see `tests.fuzz.runner`. BURN_FUZZ_DEVICE=xla or cuda runs the programs on that device."""

import os
import sys

from tests.fuzz.gradients.case import by_cuda, by_xla, case
from tests.fuzz.runner import addresses, main

CASES = {"": case, "cpu": case, "cuda": by_cuda, "xla": by_xla}
device = os.environ.get("BURN_FUZZ_DEVICE", "")
sys.exit(main(CASES[device], memory=addresses(device), preload=("torch", "burn")))
