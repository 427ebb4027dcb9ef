"""What a program or notebook calls to tune: its functions, their results, and the progress that they show."""
