"""Every defence taken out, one at a time, to see that the torture suite goes red: `python -m tests.mutants`."""
