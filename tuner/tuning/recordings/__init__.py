"""Recordings: files with the results of many configurations, of tuner and of other tuners."""
