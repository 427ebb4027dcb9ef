"""Timing: the stopwatch, interleaved rounds, races and the energy meter; nothing outside this package takes a time."""
