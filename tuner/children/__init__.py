"""Processes that `tune` starts: forked with their imports made, stopped at any moment, and gone with their parent."""
