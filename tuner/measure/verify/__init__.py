"""Verification: compares every element of every output with its answer, on several input sets."""
