"""Devices of other machines: the process that holds one there, and what stands for it here."""
