"""Kernel source text: headers, prototypes, macros, and the rendering of a configuration into what is compiled."""
