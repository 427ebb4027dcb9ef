"""Space files: read YAML into a frozen `Space`, and report each error with file, line and key."""
