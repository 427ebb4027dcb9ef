"""Builds: what compilers make of a source, the cache that keeps them, and the folders that export them."""
