"""The clock, the rounds and the energy meter. Nothing outside this room takes a time."""
