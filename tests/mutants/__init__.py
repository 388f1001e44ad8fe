"""Every defence removed, one at a time, to prove that the torture suite then fails: `make mutants`."""
