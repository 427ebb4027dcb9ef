"""Spaces and operations: parameters, restrictions, arguments and sources; nothing here needs a device."""
