"""`python -m tests.fuzz.torch_aliases`: see `tests.fuzz.runner`. BURN_FUZZ_DEVICE=cuda: on a GPU."""

import sys

from tests.fuzz.runner import main
from tests.fuzz.torch_aliases.case import case
from tests.fuzz.torch_aliases.program import DEVICE
from tests.onnx_suite.pool import MEMORY

# CUDA reserves more addresses than a worker may have.
sys.exit(main(case, memory=MEMORY if DEVICE == "cpu" else 0))
