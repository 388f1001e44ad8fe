"""A small coding agent for demonstrations and tests: `python -m agentctl.demo_agent`.

It is a program of its own, as any other agent is: it imports nothing of agentctl, and agentctl knows of it only what
it writes to its store (`store.py`) and what the kernel says of its process. There is no model behind it: the prompt
itself is the script of the turn (`script.py`).
"""

from __future__ import annotations

VERSION = "1.0"
