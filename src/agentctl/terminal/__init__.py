"""Terminals: which pane of tmux a session sits in, and every call of tmux.

Comes in: a judged session and the process table. Goes out: where a person can see it.
May import: everything up to query.
"""
