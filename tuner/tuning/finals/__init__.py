"""The end of a search: which trials are measured again, what they show, and the record that results."""
