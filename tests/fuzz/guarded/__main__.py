"""`BURN_GUARD=end python -m tests.fuzz.guarded`, and BURN_GUARD=start: see `tests.fuzz.runner`."""

import os
import sys

from tests.fuzz.guarded.case import case
from tests.fuzz.runner import main

if os.environ.get("BURN_GUARD") not in ("end", "start"):
    sys.exit("BURN_GUARD must be end or start, else no buffer lies next to a guard page")
sys.exit(main(case))
