"""The command line: one module per verb in `verbs/`, and the options, output and progress display they share."""
