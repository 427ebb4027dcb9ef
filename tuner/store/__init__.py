"""The store: the best configurations found so far, as files of records."""
