"""Stand-ins for real agents: processes with their names and arguments that write their files as they do."""
