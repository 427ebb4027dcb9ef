"""Reading a space file: YAML to a frozen `Space`, with every fault as one message with file, line and key."""
