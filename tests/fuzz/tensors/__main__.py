"""`python -m tests.fuzz.tensors`: see `tests.fuzz.runner`. BURN_FUZZ_DEVICE=xla runs the programs on that device."""

import os
import sys

from tests.fuzz.runner import main
from tests.fuzz.tensors.case import by_xla, case

sys.exit(main(by_xla if os.environ.get("BURN_FUZZ_DEVICE") == "xla" else case))
