"""Parts of the torture list that the suite does not test yet, and why. They never count as passed."""

from __future__ import annotations

AGENT = "agentctl does not support this agent yet"

OPEN = (
    ("native-daemon", "openclaw", AGENT),
    ("no-double", "phantom sessions of gemini; pi and pi-rust", AGENT),
    (
        "another-name",
        "an agent that is a small program of the system; a closed process that has left its terminal",
        "nothing that the kernel shows tells it from sleep or ssh-agent: docs/decisions/019-excluded-by-facts.md",
    ),
    ("gemini-resume", "the history survives", AGENT),
    (
        "clock-step",
        "the clock is set forward under an older agent in mid-turn that has no pid file, lock or log",
        "agentctl calls the session stopped and its process unattached: nothing tells the step from real age",
    ),
    ("many", "10 000 sessions, 100 live ones, 3 000 processes", "the benchmark measures it: docs/performance.md"),
)
