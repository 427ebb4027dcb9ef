"""The command line: a module per verb, and `app`, `options`, `output` and `progress`, which they share."""
