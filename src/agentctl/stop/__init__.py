"""Ending sessions: which processes may be touched, how each is ended, and what was proved afterwards.

Comes in: a session, group or launch. Goes out: what was ended, what was left alone and why.
May import: everything up to launch. The plan in it is pure.
"""
