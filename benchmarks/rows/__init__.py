"""What benchmarks/gpu.py times on a card."""
