"""Spoiled ONNX models: whatever the bytes, a model runs or is refused with a BurnError; no traceback, crash, hang or leak.

`mutate.py` spoils real models, by bytes and by structure; `case.py` loads and runs one. From the shell:
`python -m tests.fuzz.spoiled_models --count 100000 -j 16`.
"""
