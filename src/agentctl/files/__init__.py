"""Read what other programs write, and keep private files and caches.

Comes in: paths, and bytes that cannot be trusted. Goes out: bounded lines, checked values, private files, caches.
May import: errors, model, fast.
"""
