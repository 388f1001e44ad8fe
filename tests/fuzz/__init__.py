"""Mutations of real files, through the real query path: nothing that stands in a file may break, hang or fool it."""
