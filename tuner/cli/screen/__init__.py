"""The progress display on standard error, and the lines that state a run's result."""
