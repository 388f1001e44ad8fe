"""Start-up tricks: each module stands for a public module of Python and costs a fraction of its import.

Comes in: what the public module takes. Goes out: what it gives. May import: errors, and nothing else of ours.
README.md beside this file says what each trick buys and how to remove it.
"""
