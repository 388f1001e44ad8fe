"""OpenCode: a SQLite database (JSON files before that), logs that name sessions, a server on loopback.

adapter.py recognises its processes and reads its store; control.py starts and stops it; usage.py counts its calls.
"""
