"""The parts of the pass `fuse`.

- `cluster.py`: groups under construction and their topological order
- `reads.py`: an op's reads, through views
- `joins.py`: which op may join which kind of group
- `choice.py`: the walk that assigns every op to a group
- `contractions.py`: norms and gated layers around matmuls of a few rows
- `rebuild.py`: creates the groups
"""
