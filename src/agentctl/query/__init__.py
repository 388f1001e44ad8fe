"""The one query path: every command that shows or acts asks here, so no two of them can disagree.

Comes in: a scope and an environment. Goes out: an answer (sessions, unattached processes, problems) and its evidence.
May import: everything up to launches. The judge in it is pure.
"""
