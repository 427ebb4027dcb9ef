"""The store: the best configurations found so far, kept in files."""
