"""What agentctl itself wrote about the agents that it launched: one folder per launch.

Comes in: the state folder. Goes out: launch records, how their processes ended, hooks to run, folders that expired.
May import: everything up to agents.
"""
