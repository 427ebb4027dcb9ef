"""The content of arrays and how it is compared: fills, random draws, tolerances, declared references."""
