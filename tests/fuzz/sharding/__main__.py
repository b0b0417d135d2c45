"""`python -m tests.fuzz.sharding`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.runner import main
from tests.fuzz.sharding.case import case

sys.exit(main(case))
