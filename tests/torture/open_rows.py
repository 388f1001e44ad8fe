"""Rows of the torture list that cannot be tried yet, because what they are about is not there: never passed."""

from __future__ import annotations

LATER = "launch is not there yet"
AGENT = "this agent is not there yet"
DAEMON = "agentctl's own daemon is not there yet"

OPEN = (
    ("unflushed", "our own headless launch is running, inferred", LATER),
    ("native-daemon", "openclaw", AGENT),
    ("no-double", "gemini phantom, pi and pi-rust", AGENT),
    ("usage-once", "a fork repeats its parent's message ids", "tokens are counted within one file only"),
    ("list-vs-status", "the same answer with and without the daemon", DAEMON),
    ("real-id", "the id printed is the native one", LATER),
    ("died-at-launch", "an error with exit code and last lines", LATER),
    ("parallel", "20 launches at one moment", LATER),
    ("gate", "two launches race for one directory", LATER),
    ("lock-of-dead", "the directory is free at once", LATER),
    ("crash-anywhere", "killed at each step of a launch", LATER),
    ("prompt-odd", "1 MB, --, NUL, newline, emoji", LATER),
    ("caller-env", "variables of the caller reach the agent", LATER),
    ("resume-live", "one writer only", LATER),
    ("resume-cwd", "resume runs in the session's own directory", LATER),
    ("gemini-resume", "history survives", AGENT),
    ("clock-step", "time-inferred links become unknown", "a step of the clock leaves no trace that tells it from age"),
    ("disk-full", "launch fails with a clear error and starts nothing", LATER),
    ("many", "10 000 sessions, 100 live, 3 000 processes", "measured by the benchmark"),
    ("concurrent", "while the daemon starts", DAEMON),
    ("stale-daemon-files", "socket and key file of a dead daemon", DAEMON),
    ("two-users", "two users' daemons do not meet", DAEMON),
)
