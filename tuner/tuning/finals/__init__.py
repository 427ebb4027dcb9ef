"""The finals: which trials are measured again, what their times show, and the record that results."""
