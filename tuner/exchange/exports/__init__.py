"""Writers of the formats of `tune export`."""
