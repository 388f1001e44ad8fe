"""What the kernel knows: the process table, handles on processes, locks, wake-ups; and bounded runs of programs.

Comes in: pids, keys, paths. Goes out: processes with what could not be seen, proved handles, wake-ups.
May import: errors, model, fast, files, config.
"""
