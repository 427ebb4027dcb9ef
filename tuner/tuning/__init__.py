"""Tuning: search a space, measure its configurations, and store the best one as a record."""
