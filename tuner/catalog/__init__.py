"""The catalog: kernels by name, those that ship, the user's own, and those of installed wheels."""
