"""Drafting: what `tune new` reads out of a kernel's source, and the space file that it writes. Nothing is compiled
or run."""
