"""Count what was spent: each call in the stores once, in an index that can be deleted, and sums of them.

Comes in: stores, a time span, prices. Goes out: rows of tokens and cost.
May import: everything up to stop. The report in it is pure.
"""
