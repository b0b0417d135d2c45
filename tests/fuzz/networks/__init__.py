"""Random networks of torch's layers, above all convolutions and recurrences, in burn's ways, targets and precisions.

`python -m tests.fuzz.networks --count N --seed S -j JOBS`; BURN_FUZZ_DEVICE=cuda or wgpu runs them there."""
