"""Verification: every element of every output against the expected outputs, on several sets of inputs."""
