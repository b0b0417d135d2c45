"""`python -m tests.fuzz.tensors`: see `tests.fuzz.runner`. BURN_FUZZ_DEVICE=cuda, xla or wgpu runs the programs on
that device.
With BURN_FUZZ_DTYPE=bfloat16 most inputs have that element type."""

import os
import sys

from tests.fuzz.runner import addresses, main
from tests.fuzz.tensors.case import by_cuda, by_wgpu, by_xla, case

CASES = {"cuda": by_cuda, "xla": by_xla, "wgpu": by_wgpu}
device = os.environ.get("BURN_FUZZ_DEVICE", "")
sys.exit(main(CASES[device] if device else case, memory=addresses(device)))
