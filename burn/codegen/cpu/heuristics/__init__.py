"""Every choice of the CPU code generator that is a matter of speed and not of meaning: a file for each kind of choice."""
