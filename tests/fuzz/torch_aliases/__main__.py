"""`python -m tests.fuzz.torch_aliases`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.runner import main
from tests.fuzz.torch_aliases.case import case

sys.exit(main(case))
