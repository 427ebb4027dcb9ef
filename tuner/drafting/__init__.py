"""Drafting: `tune new` infers a space file from the text of a kernel, without compiling or running anything."""
