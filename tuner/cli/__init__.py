"""The command line: arguments and printing only. A module per verb, `app` that finds it, `options` that verbs share."""
