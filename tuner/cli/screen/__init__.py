"""What a run shows on standard error while it lasts, and the lines that state its result."""
