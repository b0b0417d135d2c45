"""Parts of `benchmarks/gpu_zoo.py` and `cpu_zoo.py`: names and models, timings, the schedule of many processes, pages."""
