"""The generic form of MLIR as Python objects: enter at `reader.read_module`."""
