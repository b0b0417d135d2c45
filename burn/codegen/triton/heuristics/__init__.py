"""Every choice of the Triton code generator that is a matter of speed and not of meaning: a file for each kind of choice, and
two for what these share (`card.py`, `sizes.py`)."""
