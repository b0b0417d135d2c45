"""What the pass `fuse` is made of.

`cluster.py`: groups in the making and the order they are kept in; `reads.py`: what an op reads, through views; `joins.py`: which
op may join which kind of group; `choice.py`: the walk that puts every op in a group; `rebuild.py`: writing the groups.
"""
