"""Kernel source text: headers, prototypes, macros, and rendering configurations into text for the compiler."""
