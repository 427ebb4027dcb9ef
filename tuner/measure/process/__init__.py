"""Workers, each in a process of its own, and what starts, asks and survives them."""
