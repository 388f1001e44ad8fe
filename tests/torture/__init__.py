"""The lies of session tools, as named cases on real processes: `python -m tests.torture`, or `make torture`."""
