"""Rows of the torture list that cannot be tried yet, because what they are about is not there: never passed."""

from __future__ import annotations

AGENT = "this agent is not there yet"
DAEMON = "agentctl's own daemon is not there yet"

OPEN = (
    ("native-daemon", "openclaw", AGENT),
    ("no-double", "gemini phantom, pi and pi-rust", AGENT),
    ("list-vs-status", "the same answer with and without the daemon", DAEMON),
    ("gemini-resume", "history survives", AGENT),
    (
        "clock-step",
        "the clock set forward under an older agent in mid-turn that has neither pid file, lock nor log",
        "said to be stopped, its process unattached: the step leaves no trace that tells it from age",
    ),
    ("many", "10 000 sessions, 100 live, 3 000 processes", "measured by the benchmark"),
    ("concurrent", "while the daemon starts", DAEMON),
    ("stale-daemon-files", "socket and key file of a dead daemon", DAEMON),
    ("two-users", "two users' daemons do not meet", DAEMON),
)
