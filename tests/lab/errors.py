"""What stops the lab. Each says what is missing or went wrong in one line."""

from __future__ import annotations


class LabError(Exception):
    """The lab cannot run, or a cell could not be brought into its state."""


class WrongAnswer(LabError):
    """agentctl said something that is not true, or said two things. The text holds the evidence."""
