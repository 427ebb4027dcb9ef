"""Expected outputs on the host: evaluating the reference of an operation, and caching the results."""
