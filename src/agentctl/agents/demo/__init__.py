"""The adapter of the demo agent (agentctl.demo_agent): the smallest whole one.

adapter.py recognises its processes and reads its store; control.py starts and stops it; usage.py counts its calls.
"""
