"""`python -m tests.fuzz.spoiled_caches`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.runner import main
from tests.fuzz.spoiled_caches.case import MEMORY, SECONDS, case

sys.exit(main(case, timeout=SECONDS, memory=MEMORY))
