"""Child processes of `tune`: they are forked with their modules imported, and end with their parent."""
