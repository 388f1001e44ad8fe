"""A long random life of agents, with an oracle that knows the truth from its own handles: `make soak`."""
