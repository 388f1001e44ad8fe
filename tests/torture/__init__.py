"""Every known way in which session tools lie, as a named case on real processes: `make torture`."""
