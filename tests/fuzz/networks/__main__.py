"""`python -m tests.fuzz.networks`: see `tests.fuzz.runner`. BURN_FUZZ_DEVICE=wgpu runs the networks on that device."""

import sys

from tests.fuzz.networks.case import case
from tests.fuzz.runner import main

sys.exit(main(case, timeout=300))
