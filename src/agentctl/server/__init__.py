"""The daemon: records what the engine tells, and serves it and the commands as HTTP on a Unix socket.

Comes in: looks of the engine, requests. Goes out: the log of events, streams of events, the JSON of commands.
May import: everything up to send and usage. Only app.py and serve.py import the packages of the extra `daemon`. Nothing
here answers from memory: each request runs the command that a person would run.
"""
