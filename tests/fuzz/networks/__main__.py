"""`python -m tests.fuzz.networks`: see `tests.fuzz.runner`. BURN_FUZZ_DEVICE=cuda or wgpu runs the networks on that
device."""

import sys

from tests.fuzz.networks.case import DEVICE, case
from tests.fuzz.runner import addresses, main

sys.exit(main(case, timeout=300, memory=addresses(DEVICE)))
