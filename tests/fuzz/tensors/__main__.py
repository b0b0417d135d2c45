"""`python -m tests.fuzz.tensors`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.runner import main
from tests.fuzz.tensors.case import case

sys.exit(main(case))
