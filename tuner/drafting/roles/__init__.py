"""What kernels do with their arguments: the roles of arrays, and what elements, scalars and constants are used for."""
