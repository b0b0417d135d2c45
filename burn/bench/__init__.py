"""Times burn and its peers on the same models: `burn-bench` is the command, burn/cli/bench.py its entry.

subject.py defines the models, peers.py the engines, interleave.py the alternation of runs, cold.py measurements of fresh
processes, report.py the output. Nothing here is on the run path; peers are imported on use.
"""
