"""`python -m tests.fuzz.torch`: see `tests.fuzz.runner`. BURN_FUZZ_DEVICE=cuda runs the modules on a GPU."""

import sys

from tests.fuzz.runner import addresses, main
from tests.fuzz.torch.case import DEVICE, case

sys.exit(main(case, memory=addresses(DEVICE)))
