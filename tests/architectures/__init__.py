"""Architectures that the packages list, with small random configurations, against eager torch: `python -m tests.architectures`.

Nothing here is chosen by hand: every model type of transformers, the smallest model of each of timm's and torchvision's modules,
diffusers' models and torch_geometric's layers. `drawn.py` is the list, `small.py` shrinks configurations, `ways.py` says how each
is run, `__main__.py` runs what is asked for, each in its own process.
"""
