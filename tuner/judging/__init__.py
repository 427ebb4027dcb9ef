"""The judgement of kernels that somebody else wrote: one verdict for each candidate, which a program can read."""
