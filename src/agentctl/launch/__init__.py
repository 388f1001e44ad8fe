"""Starting agents: from what a person typed to a runner, an agent and the real id of its session.

Comes in: an agent, a prompt, a directory, or a matrix of them. Goes out: launches, each with its session.
May import: everything up to workspace. runner.py is a program of its own and imports nothing of ours.
"""
