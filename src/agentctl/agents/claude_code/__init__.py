"""Claude Code: pid files with start ticks, transcripts under projects/, a roster of background jobs.

adapter.py recognises its processes and reads its store; control.py starts and stops it; usage.py counts its calls.
"""
