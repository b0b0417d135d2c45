"""Random torch modules against eager torch: `python -m tests.fuzz.torch --count N --seed S -j JOBS`."""
