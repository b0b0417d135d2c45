"""Batching (vectorisation): ops of one example become ops of all examples. Enter at `walk.Walk`.

    one example:   y = dot_general(w [m, k], x [k])        all examples:   y [B, m] = dot_general(x [B, k], w [m, k])

A value that differs between examples is *mapped*: its batched value has the mapped axis first. Ops without mapped operands are
copied unchanged. The batching rule of an op is a fact of its class (`class Sort(Op, name="sort", batching=leading("axis"))`): a
function from a `Call` to the batched results, or the reason why there is none. A composite without a rule, or whose rule returns
NotImplemented for these operands, is decomposed. `rules.py` has the rules that several classes share, `contraction.py` and
`indexing.py` those of their families, `control.py` those of branches and loops, `custom.py` that of custom ops. `walk.py` applies
them to a block of ops.

A batched program has no loop over examples: a rule never iterates over the mapped axis. The one exception is a custom op that has
neither a batching rule nor a body of burn functions.
"""
