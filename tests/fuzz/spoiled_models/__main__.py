"""`python -m tests.fuzz.spoiled_models`: see `tests.fuzz.runner`."""

import sys

from tests.fuzz.runner import main
from tests.fuzz.spoiled_models.case import MEMORY, SECONDS, case, models

models()  # before the workers are forked
sys.exit(main(case, timeout=SECONDS, memory=MEMORY))
