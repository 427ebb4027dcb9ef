"""Measurement of a configuration: is its result right, and how long does it take?"""
