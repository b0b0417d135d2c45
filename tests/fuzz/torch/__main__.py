"""`python -m tests.fuzz.torch`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.runner import main
from tests.fuzz.torch.case import case

sys.exit(main(case))
