"""Small random BERT, GPT-2, ViT and LSTM models as ONNX Runtime's own tools optimise and quantise them, through burn.

    python -m tests.optimised                          # every model, tool and way: a table of what differs
    python -m tests.optimised bert/dynamo/fused/int8   # these, by the beginning of their names
    python -m tests.optimised --way load --way import

`models.py` has the modules, `tools.py` what is done to their files, `ways.py` how burn takes them.
"""
