"""Stores that are shared as static files: `tune push` and `tune pull`."""
