"""All speed-related choices of the Triton code generator, which do not change results: a file for each kind of choice."""
