"""What the tests share: homes, worlds, stand-ins, and the fixtures rebuilt."""
