"""The formats that `tune export` writes."""
