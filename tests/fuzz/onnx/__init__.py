"""Random ONNX graphs, compared with ONNX Runtime.

`generate.py` grows a graph piece by piece (`steps/`). It has every value at several sets of sizes, since each piece is run in
ONNX Runtime as it is added (`graph.py`). `noise.py` estimates rounding errors, `faults.py` lists cases in which ONNX Runtime is
unreliable. `ways.py` runs the graph in burn, and `case.py` compares. A difference is cut down to the piece at
fault (`cut.py`) and judged in float64 (`judge.py`). `python -m tests.fuzz.onnx --help` runs many.
"""
