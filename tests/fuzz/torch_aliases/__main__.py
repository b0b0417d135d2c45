"""`python -m tests.fuzz.torch_aliases`: see `tests.fuzz.runner`. BURN_FUZZ_DEVICE=cuda: on a GPU."""

import sys

from tests.fuzz.runner import addresses, main
from tests.fuzz.torch_aliases.case import case
from tests.fuzz.torch_aliases.program import DEVICE

sys.exit(main(case, memory=addresses(DEVICE)))
