"""Random programs on simulated devices: what the pass `partition` makes of a program computes what the program does. Enter at
`case.py`."""
