"""The numbers of a kernel that may vary: macros, constants, template parameters, flags and undefined names."""
