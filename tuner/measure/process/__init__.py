"""Child processes: one holds a device, others compile ahead of it; any of them may be killed at any moment."""
