"""Answers: the expected outputs, computed on the device or the host by the reference that the space declares."""
