"""The rows of benchmarks/gpu.py, timed on a GPU."""
