"""Random ONNX graphs, compared with ONNX Runtime.

`generate.py` grows a graph piece by piece (`steps/`) and knows every value at several sets of sizes, since each piece is
run in ONNX Runtime as it is added (`graph.py`); `noise.py` says what rounding may do to it, `faults.py` where ONNX
Runtime is not to be asked. `ways.py` runs the graph in burn, `case.py` compares; what differs is cut down to the piece at
fault (`cut.py`) and judged in float64 (`judge.py`). `python -m tests.fuzz.onnx --help` runs many.
"""
