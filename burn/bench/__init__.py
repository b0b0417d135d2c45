"""Times burn and its peers on the same models: `burn-bench` is the command, burn/cli/bench.py its entry.

subject.py says what is measured, peers.py by whom, interleave.py how runs are taken in turns, cold.py how a fresh
process is measured, report.py how it is shown. Nothing here is on the run path; peers are imported when asked for.
"""
