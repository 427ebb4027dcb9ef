"""What arrays hold and how exactly they are compared: fills, random draws, tolerances, references as declared."""
