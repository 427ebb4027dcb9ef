"""`tune check`: records, beside an earlier source or another store."""
