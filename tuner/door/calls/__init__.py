"""What a script's call says: its arguments, grid, restrictions and options, checked and put as a space takes them."""
