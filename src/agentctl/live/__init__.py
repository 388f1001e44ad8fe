"""Says what changes while it changes: looks with the one query whenever something wakes it, and compares two looks.

Comes in: a scope, wake-ups of the kernel. Goes out: events, each a difference between two judgements.
May import: everything up to query. The comparison in it is pure; nothing here is a second source of truth.
"""
