"""`python -m tests.soak.staying`: a program that stays and asks the Python API, once for each line on its stdin. It
answers with a line of JSON, in the form of `agentctl list --json`, and with when it asked (CLOCK_MONOTONIC)."""

from __future__ import annotations

import json
import sys
import time

import agentctl
from agentctl.cli import output


def main() -> None:
    for _ in sys.stdin:
        since = time.monotonic()
        answer = agentctl.list_sessions(ended_since=0)
        until = time.monotonic()
        said = {
            "since": since,
            "until": until,
            "sessions": [output.session_json(session) for session in answer.sessions],
            "unattached": [output.unattached_json(process) for process in answer.unattached],
            "problems": [output.problem_json(problem) for problem in answer.problems],
        }
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
