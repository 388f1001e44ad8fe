"""Codex: rollouts by day, an flock on each thread, a daemon on a socket.

adapter.py recognises its processes and reads its store; control.py starts and stops it; usage.py counts its calls.
"""
