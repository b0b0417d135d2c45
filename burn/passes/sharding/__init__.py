"""Sharding: how the values of a program lie on the devices of a mesh (the pass `partition`).

- `grid`: the mesh, and the place of one device in it
- `factors`: the axes of an op's operands and results that go together
- `rules`, `views`, `indexing`: the factors of each op class
- `propagate`: shardings of all values from those of inputs and outputs
- `reshard`: the ops between one sharding and another
- `lower`: the program of one device
- `order`: ops around collectives
- `buckets`: small collectives in one, and waits behind them
"""
