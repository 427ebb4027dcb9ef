"""Worker processes, and the parent's end that starts, queries and replaces them."""
